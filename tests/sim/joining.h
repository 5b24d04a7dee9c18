// Joining: how one simulated process gets into the job: the product's rendezvous and mesh, stepped.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "cluster/mesh_builder.h"
#include "cluster/rendezvous_guest.h"
#include "cluster/rendezvous_host.h"
#include "transport/sim/network.h"

namespace syncline::sim {

using transport::sim::Network;

inline constexpr std::uint16_t kRendezvousPort = 29500;

// Which process: a rank of a job, on a host, with what it was given.
struct Identity {
  int rank = 0;
  int host = 0;
  int world_size = 2;
  int rails = 1;
  std::string run_id = "sim";
  unsigned char key_fill = 9;
};

cluster::JobKey key_of(const Identity& identity);

// Confined.
class Joining {
 public:
  static constexpr Nanos kMeetingLimit = 10 * kSecond;
  static constexpr Nanos kMeshLimit = 10 * kSecond;

  // `random` and `poller` outlive it and what it gives away.
  Joining(Network& network, event::Poller& poller, const Identity& identity,
          std::mt19937_64& random, cluster::LogLine log);

  void progress(Nanos now);
  // Joined or failed.
  bool ended() const { return joined_ || !status_.ok(); }
  const Status& status() const { return status_; }
  // From the end of the rendezvous on.
  const cluster::View* view() const { return view_ ? &*view_ : nullptr; }
  // It may become a member: rank 0 has sent the table, a guest has got it.
  bool has_table() const;
  bool gathering() const { return host_ && host_->gathering(); }
  std::uint64_t incarnation() const { return self_.incarnation; }
  // When the present phase must have ended.
  Nanos deadline() const { return deadline_; }
  std::string waiting() const;

  // Once, when joined.
  cluster::Mesh take_mesh() { return std::move(mesh_); }
  std::vector<std::unique_ptr<transport::Listener>> take_other_listeners();
  const cluster::MeshConfig& mesh_config() const { return mesh_config_; }

 private:
  void host();
  void visit();
  Status open_data();
  void met(Result<cluster::View> view);
  void meshed(Result<cluster::Mesh> mesh);

  Network& network_;
  event::Poller& poller_;
  const Identity identity_;
  cluster::LogLine log_;
  cluster::RendezvousConfig config_;
  cluster::Member self_;
  std::vector<std::unique_ptr<transport::Listener>> data_listeners_;
  std::unique_ptr<cluster::RendezvousHost> host_;
  std::unique_ptr<cluster::RendezvousGuest> guest_;
  cluster::MeshConfig mesh_config_;
  std::unique_ptr<cluster::MeshBuilder> builder_;
  std::optional<cluster::View> view_;
  cluster::Mesh mesh_;
  Nanos deadline_ = 0;
  bool joined_ = false;
  Status status_;
};

}  // namespace syncline::sim
