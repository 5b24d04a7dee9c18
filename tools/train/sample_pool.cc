#include "tools/train/sample_pool.h"

#include <algorithm>
#include <array>

namespace syncline::tools {
namespace {

constexpr int kAsk = 1;
constexpr int kGive = 2;
// Epoch and count of a request; begin and count of an answer. A request for nothing says goodbye.
using Message = std::array<std::int64_t, 2>;

TensorView view(Message& message) { return {message.data(), message.size()}; }

}  // namespace

SamplePool::SamplePool(Communicator& world, std::uint64_t samples)
    : group_(world.split(0, world.rank())), samples_(samples) {
  if (group_.rank() == 0) server_ = std::thread([this] { serve(); });
}

SamplePool::~SamplePool() {
  if (server_.joinable()) {
    server_.join();
    return;
  }
  try {
    Message goodbye{};
    group_.send(view(goodbye), 0, kAsk).wait();
  } catch (const Error&) {  // rank 0 hears of a rank that failed without it
  }
}

std::optional<SamplePool::Share> SamplePool::next(std::uint64_t epoch, std::uint64_t batch) {
  Share share;
  if (group_.rank() == 0) {
    share = take(epoch, batch);
  } else {
    Message message{static_cast<std::int64_t>(epoch), static_cast<std::int64_t>(batch)};
    group_.send(view(message), 0, kAsk).wait();
    group_.recv(view(message), 0, kGive).wait();
    share = {static_cast<std::uint64_t>(message[0]), static_cast<std::uint64_t>(message[1])};
  }
  return share.count == 0 ? std::nullopt : std::optional(share);
}

SamplePool::Share SamplePool::take(std::uint64_t epoch, std::uint64_t batch) {
  MutexLock lock(mutex_);
  std::uint64_t& next = taken_[epoch];
  const Share share{next, std::min(batch, samples_ - next)};
  next += share.count;
  return share;
}

void SamplePool::serve() {
  try {
    for (int others = group_.size() - 1; others > 0;) {
      Message message{};
      ReceiveWork asked = group_.recv(view(message), kAnySource, kAsk);
      asked.wait();
      if (message[1] == 0) {
        --others;
        continue;
      }
      const Share share =
          take(static_cast<std::uint64_t>(message[0]), static_cast<std::uint64_t>(message[1]));
      message = {static_cast<std::int64_t>(share.begin), static_cast<std::int64_t>(share.count)};
      group_.send(view(message), asked.message().source, kGive).wait();
    }
  } catch (const Error&) {  // the job ends, and every rank hears of it by itself
  }
}

}  // namespace syncline::tools
