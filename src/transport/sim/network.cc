#include "transport/sim/network.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace syncline::transport::sim {
namespace {

constexpr std::size_t kInFlightMax = 256 * 1024;
constexpr Nanos kFirstRetry = 200 * kMillisecond;
constexpr Nanos kRetryMax = 5 * kSecond;
constexpr std::uint32_t kNetwork = 10u << 24;

std::uint32_t number_of(const tcp::Address& address) {
  return ntohl(reinterpret_cast<const sockaddr_in*>(address.get())->sin_addr.s_addr);
}

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
    in_->reader_gone = std::min(in_->reader_gone, network_.now());
  }
  int fd() const override { return -1; }
  bool is_far() const override { return network_.far_; }

 private:
  Network& network_;
  std::shared_ptr<Network::Pipe> out_;
  std::shared_ptr<Network::Pipe> in_;
};

class Network::SimListener final : public Listener {
 public:
  SimListener(Network& network, Port port) : network_(network), port_(std::move(port)) {
    network_.ports_[{port_.host, port_.rail, port_.port}] = &port_;
  }
  ~SimListener() override { network_.close(port_); }
  SimListener(const SimListener&) = delete;
  SimListener& operator=(const SimListener&) = delete;
  Result<Accepted> accept() override {
    if (port_.waiting.empty()) return Accepted{};
    const Waiting next = std::move(port_.waiting.front());
    port_.waiting.pop_front();
    return Accepted{std::make_unique<SimStream>(network_, next.pipes.second, next.pipes.first),
                    next.from};
  }
  tcp::Address address() const override {
    return Network::address(port_.host, port_.rail, port_.port);
  }
  int fd() const override { return -1; }

 private:
  Network& network_;
  Port port_;
};

class Network::SimAttempt final : public Attempt {
 public:
  SimAttempt(Network& network, int from, const tcp::Address& to)
      : network_(network),
        from_(from),
        to_(static_cast<int>(number_of(to) & 0xff) - 1),
        rail_(static_cast<int>(number_of(to) >> 8 & 0xff)),
        port_(to.port()),
        local_(Network::address(from, rail_, network.next_port_++)) {
    const bool up = network_.is_up(from_, to_, rail_) && network_.is_up(to_, from_, rail_);
    // A first packet that meets a dead path is gone: who wants another one sends it.
    arrives_ = up ? network_.now() + 2 * network_.path(from_, to_, rail_).latency : INT64_MAX;
  }
  ~SimAttempt() override {
    if (error_ == 0) (void)take();
  }
  SimAttempt(const SimAttempt&) = delete;
  SimAttempt& operator=(const SimAttempt&) = delete;
  int error() override {
    const bool arrived = network_.now() >= arrives_ && network_.is_up(from_, to_, rail_) &&
                         network_.vanished_.count(to_) == 0;
    if (error_ != EINPROGRESS || !arrived) return error_;
    const auto port = network_.ports_.find({to_, rail_, port_});
    if (port == network_.ports_.end()) return error_ = ECONNREFUSED;
    pipes_ = network_.make_pipes(from_, to_, rail_, port_);
    port->second->waiting.push_back({pipes_, local_});
    return error_ = 0;
  }
  tcp::Address local() const override { return local_; }
  std::unique_ptr<Stream> take() override {
    error_ = EISCONN;  // given away
    return std::make_unique<SimStream>(network_, pipes_.first, pipes_.second);
  }
  int fd() const override { return -1; }

 private:
  Network& network_;
  int from_;
  int to_;
  int rail_;
  std::uint16_t port_;
  tcp::Address local_;
  Nanos arrives_ = 0;
  Pipes pipes_;
  int error_ = EINPROGRESS;
};

tcp::Address Network::address(int host, int rail, std::uint16_t port) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  v4.sin_addr.s_addr = htonl(kNetwork | static_cast<std::uint32_t>(rail) << 8 |
                             static_cast<std::uint32_t>(host + 1));
  return tcp::Address(reinterpret_cast<const sockaddr*>(&v4), sizeof v4);
}

Result<std::unique_ptr<Listener>> Network::listen(int host, int rail, std::uint16_t port) {
  if (port == 0) port = next_port_++;
  if (ports_.count({host, rail, port}) != 0) {
    return Status(Code::kExhausted,
                  "cannot listen on " + address(host, rail, port).to_string() + ": it is in use");
  }
  Port opened;
  opened.host = host;
  opened.rail = rail;
  opened.port = port;
  return std::unique_ptr<Listener>(std::make_unique<SimListener>(*this, std::move(opened)));
}

std::unique_ptr<Attempt> Network::connect(int from, const tcp::Address& to) {
  return std::make_unique<SimAttempt>(*this, from, to);
}

// Nobody accepts what still waits.
void Network::close(Port& port) {
  const auto listening = ports_.find({port.host, port.rail, port.port});
  if (listening != ports_.end() && listening->second == &port) ports_.erase(listening);
  for (const Waiting& each : port.waiting) SimStream(*this, each.pipes.second, each.pipes.first);
  port.waiting.clear();
}

void Network::set_up(int a, int b, int rail, bool up) {
  path(a, b, rail).up = path(b, a, rail).up = up;
}

Network::Pipes Network::make_pipes(int a, int b, int rail, std::uint16_t port) {
  const auto make = [&](int from, int to) {
    auto pipe = std::make_shared<Pipe>();
    pipe->from = from;
    pipe->to = to;
    pipe->rail = rail;
    pipe->port = port;
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
  auto [there, back] = make_pipes(a, b, rail, 0);
  return {std::make_unique<SimStream>(*this, there, back),
          std::make_unique<SimStream>(*this, back, there)};
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
  if (silently) vanished_.insert(host);
  for (auto port = ports_.begin(); port != ports_.end();) {
    Port& each = *(port++)->second;
    if (each.host == host) close(each);
  }
  const bool in_order = below(2) == 0;
  for (const auto& weak : pipes_) {
    const auto pipe = weak.lock();
    if (!pipe || (pipe->from != host && pipe->to != host)) continue;
    if (silently) {
      path(pipe->from, pipe->to, pipe->rail).up = false;
    } else if (pipe->to == host) {
      pipe->reader_gone = std::min(pipe->reader_gone, now_);
    } else if (in_order) {
      pipe->ended = true;  // what it sent still arrives
    } else {
      pipe->writer_gone = std::min(pipe->writer_gone, now_);
    }
  }
}

// The news travels from the end that is gone to the other one.
bool Network::knows(const Pipe& pipe, Nanos gone, bool writer) {
  if (gone == INT64_MAX) return false;
  const int from = writer ? pipe.to : pipe.from;
  const int to = writer ? pipe.from : pipe.to;
  const Path& way = path(from, to, pipe.rail);
  return way.up && now_ >= gone + way.latency;
}

IoResult Network::write(Pipe& pipe, std::span<const std::span<const std::byte>> pieces) {
  if (pipe.writer_reset || knows(pipe, pipe.reader_gone, true)) {
    return {IoState::kReset, 0, ECONNRESET};
  }
  std::size_t room = kInFlightMax - std::min(kInFlightMax, pipe.bytes);
  if (room == 0) return {IoState::kAgain, 0, 0};
  // Sometimes a part only, as kernels do.
  if (below(8) == 0) room = 1 + static_cast<std::size_t>(below(static_cast<int>(room)));
  std::vector<std::byte> bytes;
  for (const auto& piece : pieces) {
    const std::size_t part = std::min(room, piece.size());
    bytes.insert(bytes.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(part));
    room -= part;
    if (room == 0) break;
  }
  const std::size_t taken = bytes.size();
  if (taken == 0) return {IoState::kOk, 0, 0};
  const Path& way = path(pipe.from, pipe.to, pipe.rail);
  if (way.damaged_per_mille > 0 && below(1000) < way.damaged_per_mille) {
    const auto bit = random_() % (8 * taken);
    bytes[bit / 8] ^= std::byte(1u << (bit % 8));
    ++damaged_writes_;
  }
  const auto repeat = repeats_.find({pipe.from, pipe.port});
  if (repeat != repeats_.end() && below(1000) < repeat->second) send(pipe, way, bytes);
  send(pipe, way, std::move(bytes));
  return {IoState::kOk, taken, 0};
}

void Network::send(Pipe& pipe, const Path& way, std::vector<std::byte> bytes) {
  Nanos delay = way.latency + (way.jitter > 0 ? below(static_cast<int>(way.jitter)) : 0);
  if (way.stalls_per_mille > 0 && below(1000) < way.stalls_per_mille) delay += kFirstRetry;
  if (way.bytes_per_ms > 0) {
    delay += static_cast<Nanos>(bytes.size()) * kMillisecond / way.bytes_per_ms;
    pipe.last_arrival = std::max(pipe.last_arrival, now_);
    delay += std::max<Nanos>(0, pipe.last_arrival - now_ - way.latency);
  }
  delay += pass_wires(pipe.from, pipe.to, bytes.size());
  Chunk chunk;
  chunk.arrives = pipe.last_arrival = std::max(pipe.last_arrival, now_ + delay);
  pipe.bytes += bytes.size();
  chunk.bytes = std::move(bytes);
  pipe.chunks.push_back(std::move(chunk));
}

// How much later it is there for what else the two hosts' ports carry, in the order of writes.
Nanos Network::pass_wires(int from, int to, std::size_t bytes) {
  Nanos at = now_;
  const auto pass = [&](int host, Nanos Wire::*until) {
    const auto wire = wires_.find(host);
    if (wire == wires_.end() || wire->second.bytes_per_ms == 0) return;
    const Nanos span = static_cast<Nanos>(bytes) * kMillisecond / wire->second.bytes_per_ms;
    // A byte leaves the one port while the next enters the other.
    at = std::max(at, wire->second.*until + span);
    at = std::max(at, now_ + span);
    wire->second.*until = at;
  };
  pass(from, &Wire::out_until);
  pass(to, &Wire::in_until);
  return at - now_;
}

IoResult Network::read(Pipe& pipe, std::span<std::byte> space) {
  // What arrived before a reset can still be read, unless the kernel threw it away.
  if (pipe.reader_reset || knows(pipe, pipe.writer_gone, false)) {
    return {IoState::kReset, 0, ECONNRESET};
  }
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
