// Where rank 0 listens and where data listeners open: the choice of addresses at rendezvous.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/rendezvous.h"

namespace syncline::cluster {

struct RendezvousUri {
  enum class Kind : std::uint8_t { kTcp, kFile };
  Kind kind = Kind::kTcp;
  transport::tcp::HostPort where;  // kTcp
  std::string folder;              // kFile, without trailing slash
};

// kInvalidArgument for other schemes, with what is understood; kUnsupported for "pmix:" and
// "etcd://".
Result<RendezvousUri> parse_rendezvous_uri(const std::string& uri);

// The addresses that a tcp:// URI stands for, for listener and dialers alike. A host name that
// leads to loopback (Debian's 127.0.1.1 for the own name) stands for the chosen interfaces instead,
// unless all ranks are on this host. A one-host job without key uses loopback whatever the name
// leads to. Blocks for as long as the name service does.
Result<std::vector<transport::tcp::Address>> rendezvous_addresses(
    const RendezvousConfig& config, const transport::tcp::HostPort& where);

// Rank 0's listeners: config.listen_fd if given, else one for each of these addresses that this
// host has. A busy port is an error at once; so is an address that other hosts reach while there is
// no key.
Result<std::vector<transport::tcp::Fd>> open_rendezvous_listeners(
    const RendezvousConfig& config, const transport::tcp::HostPort& where);

// Rank 0's listener for a file rendezvous: loopback when the job is on one host or has no key, else
// the first chosen interface; a port of the kernel's choice.
Result<transport::tcp::Fd> open_file_listener(const RendezvousConfig& config);

// On the same path as `local`, this host's end of a connection to rank 0 (or rank 0's listener):
// loopback if that is, else the interface the user chose, else that address itself. Never all
// interfaces.
// Where this rank serves its peers, the first of several rails first: one listener for each
// interface that `interfaces` names in the family of the first, at most kRailsMax. Without a filter
// there is one.
Result<std::vector<transport::tcp::Fd>> open_data_listeners(const RendezvousConfig& config,
                                                            const transport::tcp::Address& local);

}  // namespace syncline::cluster
