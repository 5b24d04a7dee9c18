// The rendezvous socket, bound before any rank exists: its port is never released and taken again.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace syncline::tools {

struct Listener {
  int fd = -1;      // listening; close-on-exec
  std::string uri;  // "tcp://127.0.0.1:4711"
  int reserved_fd =
      -1;  // bound, never listening: keeps master_port free for the rank that binds it
  int master_port = 0;
};

// "4000-4100" or "4000"; "" gives {0, 0}, the kernel's choice. Errors: kInvalidArgument.
Result<std::pair<int, int>> parse_port_range(const std::string& text);

// Binds a numeric address. Errors: kExhausted with address, port and errno when no port is free.
Result<Listener> open_listener(const std::string& address, const std::string& port_range);

}  // namespace syncline::tools
