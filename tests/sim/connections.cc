#include "tests/sim/connections.h"

#include <array>

namespace syncline::sim {
namespace {

constexpr Nanos kAttemptLimit = 100 * kMillisecond;
constexpr Nanos kShakeLimit = kSecond;

}  // namespace

cluster::Secret secret_from(std::mt19937_64& random) {
  cluster::Secret secret;
  for (auto& byte : secret) byte = static_cast<unsigned char>(random());
  return secret;
}

void StreamHandshake::progress(Nanos now) {
  if (now >= deadline_ && !core_.done()) core_.on_deadline();
  const auto more = core_.take_output();
  unsent_.insert(unsent_.end(), more.begin(), more.end());
  while (!unsent_.empty()) {
    const std::span<const std::byte> piece(unsent_);
    const transport::IoResult wrote = stream_->write({&piece, 1});
    if (wrote.state != transport::IoState::kOk && wrote.state != transport::IoState::kAgain) {
      core_.on_eof();
      unsent_.clear();
      return;
    }
    if (wrote.bytes == 0) break;
    unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(wrote.bytes));
  }
  while (!core_.done() && !core_.failed()) {
    std::array<std::byte, 512> space;
    const auto got = stream_->read(std::span(space).first(std::min(space.size(), core_.wanted())));
    if (got.state == transport::IoState::kAgain) break;
    if (got.state != transport::IoState::kOk) {
      core_.on_eof();
      unsent_.clear();
      break;
    }
    core_.on_bytes(std::span(space).first(got.bytes));
    const auto answer = core_.take_output();
    unsent_.insert(unsent_.end(), answer.begin(), answer.end());
  }
  if (core_.failed() && now >= deadline_) unsent_.clear();
}

SimConnector::SimConnector(Network& network, int host, int peer_host,
                           cluster::HandshakeConfig handshake, const cluster::Secret& ephemeral)
    : network_(network),
      handshake_(std::move(handshake)),
      ephemeral_(ephemeral),
      attempt_(network.connect(host, peer_host, handshake_.rail)),
      attempt_until_(network.now() + kAttemptLimit) {}

void SimConnector::progress(Nanos now) {
  if (ended_) return;
  if (shaking_ == nullptr) {
    switch (attempt_->answer()) {
      case Network::Answer::kRefused:
        outcome_.verdict = cluster::ProbeResult::kRefused;
        ended_ = true;
        return;
      case Network::Answer::kPending:
        ended_ = now >= attempt_until_;
        return;
      case Network::Answer::kConnected:
        shaking_ = std::make_unique<StreamHandshake>(
            attempt_->take(), cluster::Handshake::dialer(handshake_, ephemeral_),
            network_.now() + kShakeLimit);
    }
  }
  shaking_->progress(now);
  if (!shaking_->ended()) return;
  ended_ = true;
  const auto& core = shaking_->core();
  if (core.done()) {
    outcome_.verdict = cluster::ProbeResult::kAnswered;
    if (handshake_.role == wire::ConnectionRole::kHeal) outcome_.stream = shaking_->take();
  } else if (core.reject() && core.reject()->code == wire::RejectCode::kIncarnation) {
    outcome_.verdict = cluster::ProbeResult::kRefused;
  }
}

void SimAcceptor::progress(Nanos now, std::mt19937_64& random) {
  for (;;) {
    Network::Accepted accepted = network_.accept(host_);
    if (accepted.stream == nullptr) break;
    half_open_.emplace_back(std::move(accepted.stream),
                            cluster::Handshake::listener(handshake_, secret_from(random)),
                            now + kShakeLimit);
  }
  for (auto each = half_open_.begin(); each != half_open_.end();) {
    each->progress(now);
    if (!each->ended()) {
      ++each;
      continue;
    }
    const cluster::Handshake& core = each->core();
    if (core.done() && core.peer().role == wire::ConnectionRole::kHeal) {
      on_accept_(core.peer(), each->take());
    }
    each = half_open_.erase(each);
  }
}

}  // namespace syncline::sim
