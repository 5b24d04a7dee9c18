// SimProcess: one process of a simulated job until it has joined, and its engine: the product's
// code from rendezvous to links, stepped by the world.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "cluster/healer.h"
#include "session/session_impl.h"
#include "tests/sim/joining.h"

namespace syncline::sim {

class SimProcess {
 public:
  using Log = std::function<void(const std::string&)>;
  static constexpr Nanos kSilence = 10 * kSecond;

  SimProcess(Network& network, const Identity& identity, std::uint64_t seed, Log log);
  virtual ~SimProcess() = default;  // after die()
  SimProcess(const SimProcess&) = delete;
  SimProcess& operator=(const SimProcess&) = delete;

  // The process ends: nothing of it is stepped any more.
  void die();

  bool joining() const { return joining_ != nullptr; }
  // Why the join failed; ok when it did not.
  const Status& join_status() const { return join_status_; }
  // From the end of the rendezvous on, also afterwards.
  const cluster::View* view() const { return view_ ? &*view_ : nullptr; }
  bool has_table() const { return had_table_; }
  bool gathering() const { return joining_ && joining_->gathering(); }
  std::uint64_t incarnation() const { return incarnation_; }
  // The rank with whose place another process than its view's is connected; -1: none.
  int wrong_peer() const { return wrong_peer_; }
  const Identity& identity() const { return identity_; }
  // When its present phase must have ended.
  Nanos join_deadline() const { return joining_->deadline(); }
  const std::map<int, cluster::LinkEndpoint*>& links() const { return links_; }

 protected:
  // One turn of joining.
  void join();
  // Null for this rank itself.
  virtual void on_joined(std::vector<exec::Channel*> peers) = 0;
  // What uses the engine is to go.
  virtual void on_death() = 0;

  Network& network_;
  const int rank_;
  Log log_;
  std::mt19937_64 random_;
  std::shared_ptr<SessionContext> context_;
  std::unique_ptr<Joining> joining_;

 private:
  void link_to(cluster::AuthenticatedSocket socket);

  const Identity identity_;
  std::vector<exec::Channel*> peers_;
  std::map<int, cluster::LinkEndpoint*> links_;
  std::uint64_t incarnation_ = 0;
  bool had_table_ = false;
  int wrong_peer_ = -1;
  std::optional<cluster::View> view_;
  Status join_status_;
  std::unique_ptr<cluster::Healer> healer_;
};

}  // namespace syncline::sim
