// Two ranks that know each other, for tests of link endpoints.
#pragma once

#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cluster/link_endpoint.h"

namespace syncline::cluster {

inline const MonotonicClock kClock;

inline LinkOptions options_of(int self, int peer) {
  LinkOptions options;
  options.self_rank = self;
  options.peer_rank = peer;
  options.peer_host = "host-" + std::to_string(peer);
  options.view = 1;
  options.self_incarnation = 100 + static_cast<std::uint64_t>(self);
  options.peer_incarnation = 100 + static_cast<std::uint64_t>(peer);
  return options;
}

// Asks whether anything listens at an address, without a handshake.
class ListenerProbe final : public Connector {
 public:
  explicit ListenerProbe(const transport::tcp::Address& address)
      : attempt_(transport::tcp::start_connect(address)),
        error_(attempt_.fd.valid() ? EINPROGRESS : attempt_.error) {}
  void progress(Nanos) override {
    if (attempt_.fd.valid()) error_ = transport::tcp::connect_error(attempt_.fd.get());
  }
  bool ended() const override { return !attempt_.fd.valid() || error_ != EINPROGRESS; }
  Outcome take() override {
    if (error_ == 0) return {nullptr, ProbeResult::kAnswered};
    return {nullptr, error_ == ECONNREFUSED ? ProbeResult::kRefused : ProbeResult::kNoAnswer};
  }

  static std::function<std::unique_ptr<Connector>()> of(const transport::tcp::Address& address) {
    return [address] { return std::make_unique<ListenerProbe>(address); };
  }

 private:
  transport::tcp::Connecting attempt_;
  int error_;
};

}  // namespace syncline::cluster
