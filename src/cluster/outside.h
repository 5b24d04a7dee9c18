// Outside: what joining a job takes from the machine besides time and listeners. The simulator has
// its own, so that a run follows from its seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "cluster/crypto.h"
#include "transport/tcp/connections.h"

namespace syncline::cluster {

// Copied freely; what the functions refer to outlives every copy.
struct Outside {
  transport::Connect connect = transport::tcp::connect_to;
  std::function<void(std::span<std::byte>)> random = random_bytes;
  bool interfaces = true;  // the addresses belong to interfaces whose carrier can be watched

  // For one handshake.
  Secret fresh_secret() const {
    Secret secret;
    random(std::as_writable_bytes(std::span(secret)));
    return secret;
  }
  // 64 random bits: one process start, or one job (DESIGN: incarnation). Never 0.
  std::uint64_t fresh_incarnation() const {
    std::uint64_t value = 0;
    while (value == 0) random(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
};

}  // namespace syncline::cluster
