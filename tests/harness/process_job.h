// Ranks as real processes of this host.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "tests/harness/thread_job.h"

namespace syncline::harness {

struct ProcessOptions {
  std::string transport = "shm";  // SYNCLINE_TRANSPORT
  SessionOptions session = test_options();
  std::map<std::string, std::string> env;  // more variables of every rank
  std::chrono::seconds limit{120};         // then the ranks are killed and the test fails
  bool own_session = true;                 // false: the body calls init() itself
};

struct Exit {
  bool ended = false;  // else it had to be killed at the limit
  int code = -1;       // exit code, -1 if a signal ended it
  int signal = 0;
};

// Externally synchronised. Forks one process per rank, which joins through the SYNCLINE_*
// environment and a listening socket that rank 0 inherits, runs `body` and exits with 0; with 1
// after a failure of a check or an exception. Standard error of each rank goes to a file that log()
// shows. The calling process must have no other threads. Destruction kills what is left.
class ProcessJob {
 public:
  ProcessJob(int ranks, RankBody body, ProcessOptions options = {});
  // The body of a rank that has no session yet.
  ProcessJob(int ranks, std::function<void(int rank)> body, ProcessOptions options = {});
  ~ProcessJob();
  ProcessJob(const ProcessJob&) = delete;
  ProcessJob& operator=(const ProcessJob&) = delete;

  int size() const { return static_cast<int>(ranks_.size()); }
  pid_t pid(int rank) const { return ranks_[static_cast<std::size_t>(rank)].pid; }
  void signal(int rank, int number);
  // Waits for the rank to end; kills it at the job's limit.
  Exit wait(int rank);
  // Waits for all; a failure of the test for each rank that did not exit with 0, with its log.
  void expect_success();
  // Where the ranks' flight records lie.
  const std::string& flight_folder() const { return flight_folder_; }
  // What the rank has written to standard error so far.
  std::string log(int rank) const;

 private:
  struct Rank {
    pid_t pid = -1;
    int log_fd = -1;
    Exit exit;
    bool waited = false;
  };
  void start(int ranks, const std::function<void(int rank)>& body);
  [[noreturn]] void run_child(int rank, int listener, const std::string& rendezvous,
                              const std::function<void(int rank)>& body);

  ProcessOptions options_;
  std::chrono::steady_clock::time_point deadline_;
  std::string flight_folder_;  // of the ranks' flight records; removed at the end
  std::vector<Rank> ranks_;
};

// Memory that this process and its later children share; zero at first.
void* shared_memory(std::size_t bytes);
void release_shared_memory(void* memory, std::size_t bytes);

// A T in such memory; T must be fine with all bytes zero and have no pointers to private memory.
template <class T>
class Shared {
 public:
  Shared() : value_(static_cast<T*>(shared_memory(sizeof(T)))) {}
  ~Shared() { release_shared_memory(value_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  T* operator->() const { return value_; }
  T& operator*() const { return *value_; }

 private:
  T* value_;
};

}  // namespace syncline::harness
