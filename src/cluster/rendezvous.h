// Rendezvous: the ranks of a job find each other and agree on the first view.
//
// Every URI comes down to one listener of rank 0, to which the others connect, authenticate and say
// who and where they are (RendezvousHost, RendezvousGuest; messages: docs/formats/rendezvous.md):
//
//   tcp://host:port   rank 0 binds exactly the addresses of `host`; port 0 only with an inherited
//   socket
//                     that already listens (listen_fd)
//   file:/dir         rank 0 listens on a port of the kernel's choice and publishes it in a file of
//   that
//                     folder, which all ranks must share (rendezvous_file.h)
//
// "slurm:" and the variables of other launchers are turned into these by discover_rank().
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/interfaces.h"
#include "cluster/key.h"
#include "cluster/log_line.h"
#include "cluster/outside.h"
#include "cluster/process_name.h"
#include "event/poller.h"
#include "transport/tcp/socket.h"
#include "wire/membership_messages.h"

namespace syncline::cluster {

using Member = wire::Member;
using View = wire::View;

struct RendezvousConfig {
  std::string uri;
  int listen_fd = -1;     // rank 0: inherited socket that listens already; taken over and closed
  int world_size = 1;     // of all processes, servers too
  int servers = 0;        // the last of them
  bool one_host = false;  // told by the launcher: loopback will do
  std::string run_id;
  JobKey key;  // absent(): loopback only, unless insecure
  bool insecure = false;
  InterfaceFilter interfaces;
  transport::tcp::PortRange ports;  // of the data listener
  Nanos timeout = 120 * kSecond;
  Nanos report_every = 10 * kSecond;  // a line about who is missing
  LogLine log;
  Outside outside;
};

// "rank 3" or "server 1".
inline std::string process_name(const RendezvousConfig& config, int number) {
  return process_name(number, config.world_size - config.servers);
}

struct Joined {
  View view;
  // In the order of members[rank].addresses, one for each rail; none in a world of one.
  std::vector<transport::tcp::Fd> data_listeners;
};

// "120 s", for messages.
std::string limit_text(Nanos limit);

// A Member for this process: host name and id, pid, parent; `incarnation` is fresh.
Member describe_self(int rank);

// Blocks, running `poller`, at most about `timeout`; name resolution and files may block besides.
// Opens the data listener on the interface that leads to rank 0 (or on the one that `interfaces`
// choose) and fills self.addresses. Errors: kTimeout names the ranks that did not come and where
// they were awaited; kMismatch another job, world size or version, or a rank that is there twice;
// kExhausted a busy port, at once; kFailedPrecondition a missing or wrong key; kPeerLost a rank
// that left meanwhile.
Result<Joined> rendezvous(event::Poller& poller, const Clock& clock, const RendezvousConfig& config,
                          Member self);

}  // namespace syncline::cluster
