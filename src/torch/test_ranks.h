// For tests: runs one function per rank, each in a thread of this process.
#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "syncline/session.h"

namespace syncline::torch_detail {

// Re-throws the first rank's exception once all have ended. Exceptions thrown inside `body` reach
// the other ranks when the session leaves.
inline void run_ranks(int ranks, const std::function<void(Communicator&)>& body,
                      SessionOptions options = {}) {
  options.timeout = std::chrono::milliseconds(30000);
  std::vector<Session> sessions = init_threads(ranks, options);
  std::vector<std::exception_ptr> errors(sessions.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < sessions.size(); ++r) {
    threads.emplace_back([&, r] {
      Session session = std::move(sessions[r]);
      try {
        body(session.world());
      } catch (...) {
        errors[r] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

// Collects one value per rank.
template <class T>
std::vector<T> each_rank(int ranks, const std::function<T(Communicator&)>& body,
                         const SessionOptions& options = {}) {
  std::vector<T> results(static_cast<std::size_t>(ranks));
  run_ranks(
      ranks,
      [&](Communicator& world) { results[static_cast<std::size_t>(world.rank())] = body(world); },
      options);
  return results;
}

// Same type, shape and bits; NaNs equal by bits.
inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  return x.nbytes() == 0 || std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0;
}

}  // namespace syncline::torch_detail
