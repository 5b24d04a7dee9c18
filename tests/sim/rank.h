// SimRank: one rank of a simulated job: the product's engine, communicator, links and handshakes,
// stepped by the world.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cluster/link_endpoint.h"
#include "session/session_impl.h"
#include "tests/sim/connections.h"
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
  SimRank(Network& network, const Scenario& scenario, int rank, Log log);

  static constexpr Nanos kSilence = 10 * kSecond;

  // -- wiring, before begin()
  void link_to(int peer, std::unique_ptr<transport::Stream> stream);
  void begin();

  // One turn at the network's time: connections, timers, operations, the next calls. True if
  // something moved.
  bool step();
  // The process ends: nothing of it is stepped any more.
  void die();
  // Another process listens at the address.
  void be_replaced();
  void answer_as_another();

  bool alive() const { return impl_ != nullptr; }
  bool finished() const { return next_call_ == script_.size() && running_.empty(); }
  std::deque<CallEnd>& ends() { return ends_; }
  const std::map<int, cluster::LinkEndpoint*>& links() const { return links_; }
  std::string waiting() const;
  Nanos paused_until = 0;

 private:
  struct Running {
    int index = 0;
    Nanos started = 0;
    Work work;
    std::vector<float> in;
    std::vector<float> in_before;
    std::vector<float> out;
  };
  cluster::HandshakeConfig identity() const;
  cluster::HandshakeConfig toward(int peer, int rail, wire::ConnectionRole role) const;
  void start(int index);
  Work issue(const PlannedCall& call, Running& running);
  void collect();
  bool is_right(const PlannedCall& call, const Running& running) const;

  Network& network_;
  const Scenario& scenario_;
  const int rank_;
  Log log_;
  std::mt19937_64 random_;
  std::vector<PlannedCall> script_;
  std::shared_ptr<SessionContext> context_;
  std::vector<exec::Channel*> peers_;
  std::map<int, cluster::LinkEndpoint*> links_;
  std::unique_ptr<SimAcceptor> acceptor_;
  std::unique_ptr<Session::Impl> impl_;
  std::size_t next_call_ = 0;
  Nanos computes_until_ = 0;
  std::deque<std::unique_ptr<Running>> running_;
  std::deque<CallEnd> ends_;
};

}  // namespace syncline::sim
