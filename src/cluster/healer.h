// Healer: gives the links of one rank their later connections.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <vector>

#include "cluster/carrier_watch.h"
#include "cluster/control_channel.h"
#include "cluster/dialer.h"
#include "cluster/link_endpoint.h"
#include "cluster/mesh.h"

namespace syncline::cluster {

// Confined to its poller; outlives the links it was told of. Of each pair the higher rank dials, as
// in the mesh, with a fresh socket and an own limit of 100 ms for every attempt: the kernel's
// retries back off too far to notice when a path returns. The lower rank accepts here.
//
// Rails: the addresses of both ranks in order; rail k leads from this rank's address k to the
// peer's address k. Rail 0 comes from the mesh, the others are dialled like one that ended.
class Healer {
 public:
  // `first` listens at members[rank].addresses[0], `others` at the following ones.
  Healer(event::Poller& poller, const Clock& clock, MeshConfig config,
         std::unique_ptr<Acceptor> first, std::vector<std::unique_ptr<transport::Listener>> others);

  // What the link to `peer` needs to heal.
  Status prepare(int peer, LinkOptions& options);
  // The link made with these options.
  void add(int peer, LinkEndpoint* link) { links_[peer] = link; }

  // Call after every poll and at least every 100 ms.
  void progress(Nanos now);

 private:
  void on_accept(Acceptor& acceptor, AuthenticatedSocket socket);
  void admit_again(AuthenticatedSocket socket);
  void on_carrier(int rail, bool up);
  DialOptions options_for(int peer, int rail, wire::ConnectionRole role) const;
  std::unique_ptr<Connector> dial(int peer, int rail);

  event::Poller& poller_;
  const Clock& clock_;
  const MeshConfig config_;
  std::vector<transport::tcp::Address> own_;
  std::map<int, std::vector<transport::tcp::Address>> addresses_;  // of the peers
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  std::list<std::unique_ptr<ControlChannel>> admitting_;
  std::map<int, LinkEndpoint*> links_;
  std::unique_ptr<CarrierWatch> carriers_;  // null: the addresses are of no interface
  std::vector<int> lost_rails_;             // since the last progress()
};

}  // namespace syncline::cluster
