// Mesh: the authenticated connections between a rank and the peers that it reaches over TCP.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/result.h"
#include "cluster/acceptor.h"
#include "cluster/rendezvous.h"

namespace syncline::cluster {

struct MeshConfig {
  View view;
  int servers = 0;  // the last of its members
  int rank = 0;
  std::vector<int> peers;  // ranks to connect with; both sides must list each other
  std::string run_id;
  JobKey key;
  bool insecure = false;
  Nanos timeout = 120 * kSecond;
  LogLine log;
  Outside outside;
};

struct Mesh {
  std::map<int, AuthenticatedSocket> sockets;  // one for each of config.peers
  // The data listener: answers probes, turns everything else away and logs it. Call progress() on
  // it with the poller's other users; set_on_accept() to take reconnections (cluster/healer.h).
  std::unique_ptr<Acceptor> acceptor;
};

// Blocks, running `poller`, until every peer is connected or `timeout` has passed. Of each pair the
// higher rank dials; the handshake binds the view, the job and both incarnations, and the lower
// rank admits each peer once. Errors: kTimeout naming the peers that are missing, kPeerLost when a
// peer's address belongs to another process now, and what Dialer reports.
Result<Mesh> connect_mesh(event::Poller& poller, const Clock& clock, const MeshConfig& config,
                          transport::tcp::Fd data_listener);

// "rank 3" or "server 1".
std::string process_name(const MeshConfig& config, int number);

// The handshake of this rank within a view, for later connections (heal, probe) of its links.
HandshakeConfig data_handshake(const MeshConfig& config);

// Of a listener that serves this rank's peers.
AcceptorOptions data_acceptor(const MeshConfig& config);

// Addresses of a member as the dialer takes them; kCorrupt if one is no address.
Result<std::vector<transport::tcp::Address>> addresses_of(const Member& member);

}  // namespace syncline::cluster
