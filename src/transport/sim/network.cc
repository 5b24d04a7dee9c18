#include "transport/sim/network.h"

#include <algorithm>
#include <cstring>

namespace syncline::transport::sim {
namespace {

constexpr std::size_t kInFlightMax = 256 * 1024;
constexpr Nanos kFirstRetry = 200 * kMillisecond;
constexpr Nanos kRetryMax = 5 * kSecond;

}  // namespace

class SimStream final : public Stream {
 public:
  SimStream(Network& network, std::shared_ptr<Network::Pipe> out, std::shared_ptr<Network::Pipe> in)
      : network_(network), out_(std::move(out)), in_(std::move(in)) {}
  ~SimStream() override { close(); }
  IoResult write(std::span<const std::span<const std::byte>> pieces) override {
    return network_.write(*out_, pieces);
  }
  IoResult read(std::span<std::byte> space) override { return network_.read(*in_, space); }
  void close() override {
    out_->ended = true;
    in_->writer_reset = true;  // who writes to an end that is gone learns it
  }
  int fd() const override { return -1; }

 private:
  Network& network_;
  std::shared_ptr<Network::Pipe> out_;
  std::shared_ptr<Network::Pipe> in_;
};

class Network::SimAttempt final : public Network::Attempt {
 public:
  SimAttempt(Network& network, std::shared_ptr<Pending> pending)
      : network_(network), pending_(std::move(pending)) {}
  Answer answer() override {
    network_.settle(*pending_);
    return *pending_->answer;
  }
  std::unique_ptr<Stream> take() override {
    return std::make_unique<SimStream>(network_, pending_->there, pending_->back);
  }

 private:
  Network& network_;
  std::shared_ptr<Pending> pending_;
};

void Network::set_up(int a, int b, int rail, bool up) {
  path(a, b, rail).up = path(b, a, rail).up = up;
}

std::pair<std::shared_ptr<Network::Pipe>, std::shared_ptr<Network::Pipe>> Network::make_pipes(
    int a, int b, int rail) {
  const auto make = [&](int from, int to) {
    auto pipe = std::make_shared<Pipe>();
    pipe->from = from;
    pipe->to = to;
    pipe->rail = rail;
    return pipe;
  };
  auto there = make(a, b);
  auto back = make(b, a);
  std::erase_if(pipes_, [](const auto& pipe) { return pipe.expired(); });
  pipes_.push_back(there);
  pipes_.push_back(back);
  return {std::move(there), std::move(back)};
}

std::pair<std::unique_ptr<Stream>, std::unique_ptr<Stream>> Network::pair(int a, int b, int rail) {
  auto [there, back] = make_pipes(a, b, rail);
  return {std::make_unique<SimStream>(*this, there, back),
          std::make_unique<SimStream>(*this, back, there)};
}

std::unique_ptr<Network::Attempt> Network::connect(int from, int to, int rail) {
  auto pending = std::make_shared<Pending>();
  const Path& way = path(from, to, rail);
  pending->from = from;
  pending->to = to;
  pending->rail = rail;
  pending->arrives = now_ + 2 * way.latency;
  pending->answer = std::make_shared<Answer>(Answer::kPending);
  // A first packet that meets a dead path is gone: who wants another one sends it.
  if (!is_up(from, to, rail) || !is_up(to, from, rail)) pending->arrives = INT64_MAX;
  return std::make_unique<SimAttempt>(*this, std::move(pending));
}

void Network::settle(Pending& pending) {
  if (*pending.answer != Answer::kPending || now_ < pending.arrives) return;
  if (!is_up(pending.from, pending.to, pending.rail)) return;
  const auto dead = dead_.find(pending.to);
  if (dead != dead_.end()) {
    if (!dead->second) *pending.answer = Answer::kRefused;
    return;
  }
  std::tie(pending.there, pending.back) = make_pipes(pending.from, pending.to, pending.rail);
  *pending.answer = Answer::kConnected;
  pending_.push_back(std::make_shared<Pending>(pending));
}

Network::Accepted Network::accept(int host) {
  const auto found = std::find_if(pending_.begin(), pending_.end(),
                                  [host](const auto& each) { return each->to == host; });
  if (found == pending_.end()) return {};
  const std::shared_ptr<Pending> pending = *found;
  pending_.erase(found);
  return {pending->from, std::make_unique<SimStream>(*this, pending->back, pending->there)};
}

void Network::reset(int a, int b, int rail) {
  for (const auto& weak : pipes_) {
    const auto pipe = weak.lock();
    if (!pipe || pipe->rail != rail) continue;
    const bool ours = (pipe->from == a && pipe->to == b) || (pipe->from == b && pipe->to == a);
    if (!ours) continue;
    // `a` knows; the other side only if the path carries the news.
    const bool told = is_up(a, b, rail);
    if (pipe->from == a || told) pipe->writer_reset = true;
    if (pipe->to == a || told) pipe->reader_reset = true;
  }
}

void Network::crash(int host, bool silently) {
  dead_[host] = silently;
  std::erase_if(pending_, [host](const auto& each) { return each->to == host; });
  for (const auto& weak : pipes_) {
    const auto pipe = weak.lock();
    if (!pipe || (pipe->from != host && pipe->to != host)) continue;
    if (silently || !is_up(pipe->from, pipe->to, pipe->rail)) {
      path(pipe->from, pipe->to, pipe->rail).up = false;
      continue;
    }
    pipe->writer_reset = pipe->reader_reset = true;
  }
}

IoResult Network::write(Pipe& pipe, std::span<const std::span<const std::byte>> pieces) {
  if (pipe.writer_reset) return {IoState::kReset, 0, 0};
  const Path& way = path(pipe.from, pipe.to, pipe.rail);
  std::size_t room = kInFlightMax - std::min(kInFlightMax, pipe.bytes);
  if (room == 0) return {IoState::kAgain, 0, 0};
  // Sometimes a part only, as kernels do.
  if (below(8) == 0) room = 1 + static_cast<std::size_t>(below(static_cast<int>(room)));
  Chunk chunk;
  for (const auto& piece : pieces) {
    const std::size_t part = std::min(room, piece.size());
    chunk.bytes.insert(chunk.bytes.end(), piece.begin(),
                       piece.begin() + static_cast<std::ptrdiff_t>(part));
    room -= part;
    if (room == 0) break;
  }
  const std::size_t taken = chunk.bytes.size();
  if (taken == 0) return {IoState::kOk, 0, 0};
  if (way.damaged_per_mille > 0 && below(1000) < way.damaged_per_mille) {
    const auto bit = random_() % (8 * taken);
    chunk.bytes[bit / 8] ^= std::byte(1u << (bit % 8));
    ++damaged_writes_;
  }
  Nanos delay = way.latency + (way.jitter > 0 ? below(static_cast<int>(way.jitter)) : 0);
  if (way.stalls_per_mille > 0 && below(1000) < way.stalls_per_mille) delay += kFirstRetry;
  if (way.bytes_per_ms > 0) {
    delay += static_cast<Nanos>(taken) * kMillisecond / way.bytes_per_ms;
    pipe.last_arrival = std::max(pipe.last_arrival, now_);
    delay += std::max<Nanos>(0, pipe.last_arrival - now_ - way.latency);
  }
  chunk.arrives = pipe.last_arrival = std::max(pipe.last_arrival, now_ + delay);
  pipe.bytes += taken;
  pipe.chunks.push_back(std::move(chunk));
  return {IoState::kOk, taken, 0};
}

IoResult Network::read(Pipe& pipe, std::span<std::byte> space) {
  // What arrived before a reset can still be read, unless the kernel threw it away.
  if (pipe.reader_reset) return {IoState::kReset, 0, 0};
  if (!pipe.chunks.empty() && pipe.chunks.front().arrives <= now_ &&
      !is_up(pipe.from, pipe.to, pipe.rail)) {
    pipe.retry_pause = std::clamp(2 * pipe.retry_pause, kFirstRetry, kRetryMax);
    for (Chunk& chunk : pipe.chunks)
      chunk.arrives = std::max(chunk.arrives, now_ + pipe.retry_pause);
    pipe.last_arrival = pipe.chunks.back().arrives;
  }
  std::size_t got = 0;
  while (got < space.size() && !pipe.chunks.empty() && pipe.chunks.front().arrives <= now_) {
    Chunk& chunk = pipe.chunks.front();
    const std::size_t part = std::min(space.size() - got, chunk.bytes.size() - chunk.read);
    std::memcpy(space.data() + got, chunk.bytes.data() + chunk.read, part);
    got += part;
    chunk.read += part;
    if (chunk.read == chunk.bytes.size()) pipe.chunks.pop_front();
  }
  if (got > 0) {
    pipe.retry_pause = 0;
    pipe.bytes -= got;
    bytes_delivered_ += got;
    return {IoState::kOk, got, 0};
  }
  if (pipe.ended && pipe.chunks.empty() && is_up(pipe.from, pipe.to, pipe.rail)) {
    return {IoState::kEof, 0, 0};
  }
  return {IoState::kAgain, 0, 0};
}

}  // namespace syncline::transport::sim
