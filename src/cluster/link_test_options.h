// Two ranks that know each other, for tests of link endpoints.
#pragma once

#include <cstdint>
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

}  // namespace syncline::cluster
