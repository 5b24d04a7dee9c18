#include "tools/train/sample_pool.h"

#include <algorithm>
#include <array>
#include <map>

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
  try {
    Message goodbye{};
    group_.send(view(goodbye), 0, kAsk).wait();
  } catch (
      const Error&) {  // whoever fails says so elsewhere; the server's thread ends with the job
  }
  if (server_.joinable()) server_.join();
}

std::optional<SamplePool::Share> SamplePool::next(std::uint64_t epoch, std::uint64_t batch) {
  Message message{static_cast<std::int64_t>(epoch), static_cast<std::int64_t>(batch)};
  group_.send(view(message), 0, kAsk).wait();
  group_.recv(view(message), 0, kGive).wait();
  if (message[1] == 0) return std::nullopt;
  return Share{static_cast<std::uint64_t>(message[0]), static_cast<std::uint64_t>(message[1])};
}

void SamplePool::serve() {
  std::map<std::int64_t, std::uint64_t> taken;  // by epoch
  try {
    for (int present = group_.size(); present > 0;) {
      Message message{};
      ReceiveWork asked = group_.recv(view(message), kAnySource, kAsk);
      asked.wait();
      if (message[1] == 0) {
        --present;
        continue;
      }
      std::uint64_t& begin = taken[message[0]];
      const std::uint64_t count =
          std::min(static_cast<std::uint64_t>(message[1]), samples_ - begin);
      message = {static_cast<std::int64_t>(begin), static_cast<std::int64_t>(count)};
      begin += count;
      group_.send(view(message), asked.message().source, kGive).wait();
    }
  } catch (const Error&) {  // the job ends, and every rank hears of it by itself
  }
}

}  // namespace syncline::tools
