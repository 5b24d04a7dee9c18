// Mutex with Clang thread-safety annotations.
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define SYNCLINE_TSA(x) __attribute__((x))
#else
#define SYNCLINE_TSA(x)
#endif
#define SYNCLINE_GUARDED_BY(m) SYNCLINE_TSA(guarded_by(m))
#define SYNCLINE_REQUIRES(m) SYNCLINE_TSA(requires_capability(m))
#define SYNCLINE_EXCLUDES(m) SYNCLINE_TSA(locks_excluded(m))

namespace syncline {

class SYNCLINE_TSA(capability("mutex")) Mutex {
 public:
  void lock() SYNCLINE_TSA(acquire_capability()) { mutex_.lock(); }
  void unlock() SYNCLINE_TSA(release_capability()) { mutex_.unlock(); }
  bool try_lock() SYNCLINE_TSA(try_acquire_capability(true)) { return mutex_.try_lock(); }
  std::mutex& native() { return mutex_; }  // for condition variables only

 private:
  std::mutex mutex_;
};

class SYNCLINE_TSA(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) SYNCLINE_TSA(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() SYNCLINE_TSA(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace syncline
