#include "event/thread.h"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <utility>

#include "base/assert.h"
#include "syncline/status.h"

namespace syncline::event {

NamedThread::NamedThread(const std::string& name, std::function<void()> body) {
  SYNCLINE_ASSERT(name.size() <= 15, "the kernel keeps 15 characters of a thread's name");
  sigset_t all;
  sigset_t previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  try {
    thread_ = std::thread([name, run = std::move(body)] {
      pthread_setname_np(pthread_self(), name.c_str());
      run();
    });
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &previous, nullptr);
    throw Error(Status(Code::kExhausted, "cannot start thread '" + name + "': " + error.what() +
                                             "; raise the limit of processes (ulimit -u)"));
  }
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
}

NamedThread::~NamedThread() { join(); }

NamedThread& NamedThread::operator=(NamedThread&& other) noexcept {
  join();
  thread_ = std::move(other.thread_);
  return *this;
}

void NamedThread::join() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace syncline::event
