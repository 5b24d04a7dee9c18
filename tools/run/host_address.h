// The address at which rank 0's host listens for the other ranks.
#pragma once

#include <string>

#include "base/result.h"
#include "tools/run/message.h"

namespace syncline::tools {

// Numeric. One host and no --ifname: loopback. Otherwise, in order: the interface of --ifname (or
// NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME), the address of the host's name in the host list, the
// address by which ssh came in, the first interface; never loopback when other hosts must reach it.
// Errors: kFailedPrecondition when no such address exists.
Result<std::string> listen_address(const AgentConfig& config);

}  // namespace syncline::tools
