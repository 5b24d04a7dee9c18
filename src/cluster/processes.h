// Other processes of this host, as far as /proc shows them.
#pragma once

#include <cstdint>
#include <string>

namespace syncline::cluster {

// How many ancestors two processes have in common, themselves included: the more, the closer they
// are. 0 if one of them is not to be seen.
int common_ancestors(int pid, int other);

// Who listens on this TCP port: "pid 4711 (redis-server)"; "" if that is not to be seen, as for
// processes of another user. Reads the descriptors of every process: for error messages.
std::string listener_on_port(std::uint16_t port);

}  // namespace syncline::cluster
