// Network interfaces and the choice among them, by NCCL's grammar.
//
//   "eth0,ib"       names that begin with eth0 or ib
//   "=eth0,eth1"    exactly these names
//   "^lo,docker0"   all but names that begin so
//   "^=eth0"        all but exactly these
//   ""              the default: up, never loopback
//
// What no list names is taken only when there is no other: docker*, veth*, br-*, virbr*, cni* and
// flannel*.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "transport/tcp/address.h"

namespace syncline::cluster {

// One address of one interface.
struct Interface {
  std::string name;
  transport::tcp::Address address;  // port 0
  bool up = true;
  bool loopback = false;
  bool link_local = false;  // fe80::/10 or 169.254/16: needs a scope, last choice
};

// Immutable.
class InterfaceFilter {
 public:
  // kInvalidArgument for an empty name in the list.
  static Result<InterfaceFilter> parse(std::string_view text);

  bool given() const { return !names_.empty(); }
  bool admits(const std::string& name) const;
  // Says which to use, not only which to leave alone.
  bool chooses() const { return given() && !exclude_; }
  // Has exactly this name in its list.
  bool lists(const std::string& name) const;
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::vector<std::string> names_;
  bool exact_ = false;
  bool exclude_ = false;
};

// The option, else SYNCLINE_IFNAME, SYNCLINE_SOCKET_IFNAME, NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME.
Result<InterfaceFilter> interface_filter(const std::string& option, const EnvLookup& lookup);

// All up interfaces with an IPv4 or IPv6 address, in the kernel's order.
Result<std::vector<Interface>> list_interfaces();

// Those to use with other hosts, best first: an interface that is listed by its full name before
// one that only begins so (eth0 and eth0.17), IPv4 before IPv6 within an interface, link-local
// addresses last and only without others. Loopback only if the filter names it. kInvalidArgument,
// listing what is there, when none is left.
Result<std::vector<Interface>> select_interfaces(const std::vector<Interface>& all,
                                                 const InterfaceFilter& filter);

// The name of the interface that has this address; "" if there is none.
std::string interface_name(const transport::tcp::Address& address);

}  // namespace syncline::cluster
