// Which host this process is on, so that ranks know with whom they can share memory.
#pragma once

#include <string>

namespace syncline::cluster {

// "<boot id>/<inode of the network namespace>": equal for two processes exactly if they run on one
// kernel and in one network namespace. Namespaces count as hosts of their own, so that containers
// with separate networks, and tests with namespaces, take the way over the network.
std::string host_id();

// For messages; never empty.
std::string host_name();

}  // namespace syncline::cluster
