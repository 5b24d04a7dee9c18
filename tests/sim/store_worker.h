// StoreWorker and StoreServer: processes of a simulated job with a key-value store. They join, then
// the product's client and server move their bytes over the product's engine and links.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ps/client.h"
#include "ps/server.h"
#include "tests/sim/process.h"
#include "tests/sim/store_ledger.h"

namespace syncline::sim {

// A worker's side of its pairs, which its engine then knows.
ps::WorkerLinks worker_links(const SessionContext& context, const StoreScenario& scenario, int rank,
                             const std::vector<exec::Channel*>& peers, Nanos timeout);

class StoreServer : public SimProcess {
 public:
  StoreServer(Network& network, const StoreScenario& scenario, const Identity& identity, Log log);
  ~StoreServer() override { die(); }

  bool step();
  // Every worker has left or is gone.
  bool is_over() const { return over_; }
  // Empty: it holds no more than it may.
  std::string excess() const;

 private:
  void on_joined(std::vector<exec::Channel*> peers) override;
  void on_death() override;

  const StoreScenario& scenario_;
  ps::ServerLinks links_;
  std::unique_ptr<ps::Server> server_;
  bool over_ = false;
};

class StoreWorker : public SimProcess {
 public:
  StoreWorker(Network& network, const StoreScenario& scenario, const Identity& identity,
              StoreLedger& ledger, Log log);
  ~StoreWorker() override { die(); }

  bool step();
  // It knows all keys.
  bool ready() const { return phase_ >= Phase::kWorking && found_ == scenario_.keys.size(); }
  // It has flushed all that it had to push.
  bool finished() const { return phase_ >= Phase::kWatching; }
  bool is_over() const { return phase_ == Phase::kOver; }
  // The last to leave looks at what all have left behind: set when everybody else has.
  void set_last() { last_ = true; }
  void leave_now() { leaves_ = true; }
  const std::string& violation() const { return violation_; }
  std::uint64_t checked() const { return checked_; }
  std::uint64_t refused() const { return refused_; }
  std::string waiting() const;

 private:
  enum class Phase : std::uint8_t {
    kIdle,      // waits before it opens the store
    kOpening,   // and says which optimiser
    kFinding,   // makes keys, or looks them up
    kWorking,   // clocks
    kFlushing,  // its last pushes
    kWatching,  // has pushed everything
    kLooking,   // last of all
    kOver,
  };
  struct Action {
    enum class Kind : std::uint8_t { kPush, kPull, kPushPull, kLatePush, kFlush } kind{};
    std::size_t key = 0;
    int priority = 0;
  };
  struct Running {
    std::shared_ptr<WorkState> work;
    std::vector<float> data;
    std::optional<CalledPull> pull;
    std::optional<std::vector<std::size_t>> flush;
  };
  void on_joined(std::vector<exec::Channel*> peers) override;
  void on_death() override;
  void connect_host(const std::vector<exec::Channel*>& peers);
  bool step_relay();
  std::vector<ps::Client*> in_use() const;
  // Who makes, sets and reads keys of this kind at the servers; who pushes and pulls them.
  ps::Client& keeper_of(std::size_t key) const {
    return scenario_.keys[key].table ? *client_ : *tensors_;
  }
  ps::Client& way_of(std::size_t key) const {
    return scenario_.keys[key].table ? *client_ : *sums_;
  }
  bool advance();
  void introduce(const ps::KeyDescription& key);
  void open();
  void find_next();
  bool found();
  void plan_clock();
  bool work();
  void run(const Action& action);
  void push(const Action& action, bool late);
  void pull(std::size_t key, int priority);
  void push_pull(const Action& action);
  optim::Optimizer optimizer() const;
  void flush();
  void look();
  void collect();
  void end(Running& running);
  void watch_failures();
  void violate(const std::string& what);
  std::vector<std::int64_t> random_ids();
  ps::Client::Call call(int priority) const;
  int below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }

  const StoreScenario& scenario_;
  StoreLedger& ledger_;
  // As the product's StoreClients: of all workers; of tensors; to the host's relay. Where no host
  // sums they are one.
  std::shared_ptr<ps::Client> client_, tensors_, sums_;
  std::vector<ps::KeyDescription> keys_;  // as pushes and pulls go: to a relay all of them
  ps::ServerLinks relay_links_;
  std::unique_ptr<ps::Server> relay_;
  std::shared_ptr<WorkState> relayed_;  // all of it, at the end
  Phase phase_ = Phase::kIdle;
  std::size_t found_ = 0;  // keys
  std::vector<std::shared_ptr<WorkState>> step_works_;
  ps::Client::Lookup lookup_;
  std::vector<float> first_value_;
  std::uint64_t clock_ = 0;
  std::deque<Action> actions_;   // of this clock
  std::set<std::size_t> ended_;  // keys pulled in this clock after a push
  bool waits_ = false;           // for all its calls, before the clock ends
  Nanos busy_until_ = 0;
  bool last_ = false, leaves_ = false;
  std::vector<std::unique_ptr<Running>> running_;
  std::string violation_;
  std::uint64_t checked_ = 0, refused_ = 0;
};

}  // namespace syncline::sim
