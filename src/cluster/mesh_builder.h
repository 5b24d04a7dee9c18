// MeshBuilder: makes the connections of a mesh (cluster/mesh.h), step by step.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <set>

#include "cluster/control_channel.h"
#include "cluster/dialer.h"
#include "cluster/mesh.h"

namespace syncline::cluster {

// Confined to its poller. What it does and how it fails: connect_mesh().
class MeshBuilder {
 public:
  // `listener` serves members[rank].addresses[0].
  MeshBuilder(event::Poller& poller, const Clock& clock, MeshConfig config,
              std::unique_ptr<transport::Listener> listener);
  MeshBuilder(const MeshBuilder&) = delete;
  MeshBuilder& operator=(const MeshBuilder&) = delete;

  // Call after every poll and at least every 100 ms.
  void progress(Nanos now);
  bool ended() const { return ended_; }
  // Once, after ended().
  Result<Mesh> take();

 private:
  struct Outgoing {
    int peer = -1;
    std::unique_ptr<Dialer> dialer;           // until connected
    std::unique_ptr<ControlChannel> channel;  // until admitted
    Nanos admit_until = 0;
  };

  const Member& member(int rank) const {
    return config_.view.members[static_cast<std::size_t>(rank)];
  }
  Result<DialOptions> dial_options(int peer) const;
  Status dial(int peer);
  Status redial(Outgoing& out, int peer);
  void on_accept(AuthenticatedSocket socket);
  void admit();
  Status dial_all(Nanos now);
  Result<bool> advance(Outgoing& out, Nanos now);
  Status probe_awaited(Nanos now);
  void keep(AuthenticatedSocket socket);
  bool complete() const;
  void end(Status status);
  Status lost(int peer, const Status& why) const;
  Status blame(const Outgoing& out, const Status& why) const;
  Status timed_out() const;

  event::Poller& poller_;
  const Clock& clock_;
  const MeshConfig config_;
  Nanos deadline_;
  Mesh mesh_;
  std::set<int> awaited_;
  std::list<std::unique_ptr<ControlChannel>> admitting_;
  std::list<Outgoing> outgoing_;
  std::unique_ptr<Dialer> probe_;
  int probed_ = -1;
  Nanos probe_at_;
  bool ended_ = false;
  Status status_;  // why it failed
};

}  // namespace syncline::cluster
