// SimRank: one process of a simulated job: it joins, then calls collectives. The product's code
// from rendezvous to communicator, stepped by the world.
#pragma once

#include <deque>
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
#include "tests/sim/plan.h"

namespace syncline::sim {

// What a finished call was like.
struct CallEnd {
  int index = 0;
  Nanos started = 0;
  Status status;
  bool right = true;         // the result is what it must be
  bool input_intact = true;  // of a call that is not in place
};

class SimRank {
 public:
  using Log = std::function<void(const std::string&)>;
  SimRank(Network& network, const Scenario& scenario, const Identity& identity,
          std::uint64_t generation, Log log);
  ~SimRank();

  static constexpr Nanos kSilence = 10 * kSecond;

  // One turn at the network's time: connections, timers, operations, the next calls. True if
  // something moved.
  bool step();
  // The process ends: nothing of it is stepped any more.
  void die();

  bool joining() const { return joining_ != nullptr; }
  // Has joined, and is neither dead nor done with a failed join.
  bool alive() const { return impl_ != nullptr; }
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
  bool finished() const { return impl_ && next_call_ == script_.size() && running_.empty(); }
  std::deque<CallEnd>& ends() { return ends_; }
  const std::map<int, cluster::LinkEndpoint*>& links() const { return links_; }
  std::string waiting() const;

 private:
  struct Running {
    int index = 0;
    Nanos started = 0;
    Work work;
    std::vector<float> in;
    std::vector<float> in_before;
    std::vector<float> out;
  };
  void join();
  void link_to(cluster::AuthenticatedSocket socket);
  void start(int index);
  Work issue(const PlannedCall& call, Running& running);
  void collect();
  bool is_right(const PlannedCall& call, const Running& running) const;

  Network& network_;
  const Scenario& scenario_;
  const Identity identity_;
  const int rank_;
  Log log_;
  std::mt19937_64 random_;
  std::vector<PlannedCall> script_;
  std::shared_ptr<SessionContext> context_;
  std::vector<exec::Channel*> peers_;
  std::map<int, cluster::LinkEndpoint*> links_;
  std::unique_ptr<Joining> joining_;
  std::uint64_t incarnation_ = 0;
  bool had_table_ = false;
  int wrong_peer_ = -1;
  std::optional<cluster::View> view_;
  Status join_status_;
  std::unique_ptr<cluster::Healer> healer_;
  std::unique_ptr<Session::Impl> impl_;
  std::size_t next_call_ = 0;
  Nanos computes_until_ = 0;
  std::deque<std::unique_ptr<Running>> running_;
  std::deque<CallEnd> ends_;
};

}  // namespace syncline::sim
