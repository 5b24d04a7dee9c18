// ThreadReplicas: the threads behind DataParallel, one rank and one replica each.
#pragma once

// First of LibTorch: clang in C++20 mode needs IValue complete before its list type.
#include <ATen/core/ivalue.h>

#include <condition_variable>
#include <exception>
#include <functional>
#include <vector>

#include "base/mutex.h"
#include "event/thread.h"
#include "syncline/session.h"
#include "syncline/torch/data_parallel.h"

namespace syncline::torch_detail {

// Externally synchronised. Replica 0 is the user's module.
class ThreadReplicas {
 public:
  // Lets the replicas' parameters share the memory of replica 0's. Throws kInvalidArgument when a
  // replica is another model.
  explicit ThreadReplicas(std::vector<ReplicaTensors> replicas);
  ~ThreadReplicas();
  ThreadReplicas(const ThreadReplicas&) = delete;
  ThreadReplicas& operator=(const ThreadReplicas&) = delete;

  int size() const { return static_cast<int>(replicas_.size()); }
  // Runs job(replica) for replicas 0 .. count-1 at once; blocks until all are done; then throws
  // what the first of them threw. Grad mode is the caller's.
  void run(int count, const std::function<void(int)>& job);

  // Copies replica 0's buffers to the others.
  void publish_buffers();
  // `compute` runs a backward on each of `count` replicas; the sum of their gradients is added to
  // replica 0's .grad. When one throws, .grad is as before.
  void accumulate(int count, const std::function<void(int)>& compute);

 private:
  void serve(int replica);
  void sum_gradients();
  void reduce_to_first(int replica, const std::vector<std::size_t>& group);

  std::vector<ReplicaTensors> replicas_;
  std::vector<Session> sessions_;  // until the threads have taken them
  std::vector<Communicator> comms_;
  std::vector<std::exception_ptr> errors_;  // written by the replica's thread during a run

  Mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t round_ = 0;  // guarded by mutex_, as are the rest
  std::function<void(int)> job_;
  int count_ = 0;
  int running_ = 0;
  bool grad_mode_ = true;
  bool stop_ = false;
  std::vector<event::NamedThread> threads_;  // last: joined first
};

}  // namespace syncline::torch_detail
