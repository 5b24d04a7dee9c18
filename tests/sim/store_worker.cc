#include "tests/sim/store_worker.h"

#include <algorithm>

namespace syncline::sim {
namespace {

constexpr Nanos kPatience = 100 * kSecond;
constexpr std::size_t kCallsMax = 12;        // of a worker at a time
constexpr std::size_t kCallsMaxInBulk = 64;  // more than one clock's
constexpr std::uint16_t kStoreNumber = 1;
constexpr std::uint16_t kTensorStoreNumber = 2;  // where hosts sum

// The pairs of this worker or server, known to its engine, in the order of their ids.
std::vector<std::shared_ptr<exec::Group>> worker_pairs(exec::Engine& engine,
                                                       const StoreScenario& scenario, int rank,
                                                       const std::vector<exec::Channel*>& peers) {
  std::vector<std::shared_ptr<exec::Group>> pairs;
  for (int worker = 0; worker < scenario.workers; ++worker) {
    for (int server = 0; server < scenario.servers; ++server) {
      const int ranks[2] = {worker, scenario.workers + server};
      if (ranks[0] != rank && ranks[1] != rank) continue;
      auto group = std::make_shared<exec::Group>();
      group->id = static_cast<std::uint32_t>(2 + worker * scenario.servers + server);
      group->rank = ranks[0] == rank ? ps::kWorkerSide : ps::kServerSide;
      for (const int each : ranks) {
        group->peers.push_back(peers[static_cast<std::size_t>(each)]);
        group->world_ranks.push_back(each);
      }
      engine.add_group(group);
      pairs.push_back(std::move(group));
    }
  }
  return pairs;
}

// Of a worker and the one that sums for its host.
std::shared_ptr<exec::Group> host_pair(exec::Engine& engine, const StoreScenario& scenario,
                                       int rank, int worker,
                                       const std::vector<exec::Channel*>& peers) {
  auto group = std::make_shared<exec::Group>();
  group->id = static_cast<std::uint32_t>(2 + scenario.workers * scenario.servers +
                                         scenario.servers * scenario.servers + worker);
  std::vector<int> ranks{worker};
  if (scenario.leader_of(worker) != worker) ranks.push_back(scenario.leader_of(worker));
  for (const int each : ranks) {
    if (each == rank) group->rank = static_cast<int>(group->peers.size());
    group->peers.push_back(peers[static_cast<std::size_t>(each)]);
    group->world_ranks.push_back(each);
  }
  engine.add_group(group);
  return group;
}

// The pairs of this server with the others.
std::vector<std::shared_ptr<exec::Group>> make_server_pairs(
    exec::Engine& engine, const StoreScenario& scenario, int self,
    const std::vector<exec::Channel*>& peers) {
  std::vector<std::shared_ptr<exec::Group>> pairs(static_cast<std::size_t>(scenario.servers));
  for (int low = 0; low < scenario.servers; ++low) {
    for (int high = low + 1; high < scenario.servers; ++high) {
      if (low != self && high != self) continue;
      auto group = std::make_shared<exec::Group>();
      group->id = static_cast<std::uint32_t>(2 + scenario.workers * scenario.servers +
                                             low * scenario.servers + high);
      group->rank = low == self ? 0 : 1;
      for (const int each : {scenario.workers + low, scenario.workers + high}) {
        group->peers.push_back(peers[static_cast<std::size_t>(each)]);
        group->world_ranks.push_back(each);
      }
      engine.add_group(group);
      pairs[static_cast<std::size_t>(low == self ? high : low)] = std::move(group);
    }
  }
  return pairs;
}

}  // namespace

ps::WorkerLinks worker_links(const SessionContext& context, const StoreScenario& scenario, int rank,
                             const std::vector<exec::Channel*>& peers, Nanos timeout) {
  ps::WorkerLinks links;
  links.engine = context.engine;
  links.worker = rank;
  links.workers = scenario.workers;
  links.servers = worker_pairs(*context.engine, scenario, rank, peers);
  links.segment_bytes = context.staging.segment_bytes_max;
  links.timeout = timeout;
  return links;
}

StoreServer::StoreServer(Network& network, const StoreScenario& scenario, const Identity& identity,
                         Log log)
    : SimProcess(network, identity,
                 scenario.network.seed * 31 + 100 + static_cast<std::uint64_t>(identity.rank),
                 std::move(log)),
      scenario_(scenario) {}

void StoreServer::on_joined(std::vector<exec::Channel*> peers) {
  context_->engine->start();
  links_.engine = context_->engine;
  links_.server = rank_ - scenario_.workers;
  links_.workers = worker_pairs(*context_->engine, scenario_, rank_, peers);
  links_.peers = make_server_pairs(*context_->engine, scenario_, links_.server, peers);
  links_.segment_bytes = context_->staging.segment_bytes_max;
  links_.ends_with_stores = true;
  links_.log = log_;
  server_ = std::make_unique<ps::Server>(links_);
}

void StoreServer::on_death() {
  if (server_ != nullptr) context_->engine->stop(0);
  server_.reset();
  links_ = {};
}

bool StoreServer::step() {
  if (joining_) {
    join();
    return !joining_;
  }
  bool moved = context_->engine->step();
  for (int i = 0; i < 4 && server_->step(); ++i) moved = true;
  over_ = over_ || server_->is_over();
  return moved;
}

// Rounds of as many clocks as workers may be apart, and what a pair may have on its way.
std::string StoreServer::excess() const {
  if (server_ == nullptr) return {};
  constexpr std::size_t kPushesPerClock = 4;
  std::size_t biggest = 0, all = 0;
  for (const auto& key : scenario_.keys) {
    const std::size_t bytes = key.table ? 8 * (8 + key.count * 4) : key.count * 4;
    biggest = std::max(biggest, bytes);
    all += bytes;
  }
  const auto workers = static_cast<std::size_t>(scenario_.workers);
  for (int worker = 0; worker < scenario_.workers; ++worker) {
    if (server_->core().expected_bytes(worker) > ps::Server::kExpectedBytesMax + biggest) {
      return "awaits too much from worker " + std::to_string(worker);
    }
  }
  const std::size_t apart = scenario_.bound == ps::kUnbounded ? 1 : scenario_.bound + 3;
  const std::size_t room = apart * workers * kPushesPerClock * all;
  const std::uint64_t held = server_->core().held_bytes();
  return held <= room ? "" : "holds " + std::to_string(held) + " bytes of pushes";
}

StoreWorker::StoreWorker(Network& network, const StoreScenario& scenario, const Identity& identity,
                         StoreLedger& ledger, Log log)
    : SimProcess(network, identity,
                 scenario.network.seed * 31 + static_cast<std::uint64_t>(identity.rank),
                 std::move(log)),
      scenario_(scenario),
      ledger_(ledger) {}

void StoreWorker::on_joined(std::vector<exec::Channel*> peers) {
  context_->engine->start();
  ps::WorkerLinks links = worker_links(*context_, scenario_, rank_, peers, kPatience);
  // So small that calls wait for it, and overtake each other.
  links.window_bytes = std::size_t{1} << (10 + scenario_.network.seed % 12);
  links.lead_bytes = std::size_t{1} << (12 + scenario_.network.seed % 7);
  client_ = tensors_ = sums_ = std::make_shared<ps::Client>(links, kStoreNumber);
  keys_ = scenario_.keys;
  if (!scenario_.hosts.empty()) {
    tensors_ = sums_ = std::make_shared<ps::Client>(links, kTensorStoreNumber);
    connect_host(peers);
  }
  busy_until_ = network_.now() + scenario_.delays[static_cast<std::size_t>(rank_)];
}

void StoreWorker::connect_host(const std::vector<exec::Channel*>& peers) {
  const int leader = scenario_.leader_of(rank_);
  if (!scenario_.leads(leader)) return;  // alone
  ps::WorkerLinks links = tensors_->links();
  links.servers.clear();
  relay_links_ = {};
  links.workers = 0;
  for (int worker = 0; worker < scenario_.workers; ++worker) {
    if (scenario_.leader_of(worker) != leader) continue;
    if (worker == rank_) links.worker = links.workers;
    ++links.workers;
    if (worker != rank_ && leader != rank_) continue;
    auto pair = host_pair(*context_->engine, scenario_, rank_, worker, peers);
    if (worker == rank_) links.servers.push_back(pair);
    if (leader == rank_) relay_links_.workers.push_back(std::move(pair));
  }
  relay_links_.engine = context_->engine;
  relay_links_.segment_bytes = links.segment_bytes;
  relay_links_.ends_with_stores = true;
  relay_links_.log = log_;
  sums_ = std::make_shared<ps::Client>(std::move(links), kTensorStoreNumber);
  for (auto& key : keys_) {
    for (auto& slice : key.slices) slice.server = 0;
  }
}

std::vector<ps::Client*> StoreWorker::in_use() const {
  if (sums_ == client_) return {client_.get()};
  return {client_.get(), sums_.get()};
}

// As run_relay().
bool StoreWorker::step_relay() {
  if (relay_ == nullptr) return false;
  bool moved = false;
  for (int i = 0; i < 4 && relay_->step(); ++i) moved = true;
  if (!relay_->is_over()) return moved;
  if (relayed_ == nullptr) {
    relayed_ = tensors_->flush(kPatience);
  } else if (relayed_->done()) {
    if (!relayed_->status().ok()) violate(relayed_->status().to_string());
    tensors_->leave();
    relay_.reset();
  }
  return true;
}

void StoreWorker::on_death() {
  if (client_ != nullptr) context_->engine->stop(0);
  relay_.reset();
  relay_links_ = {};
  relayed_.reset();
  client_.reset();
  tensors_.reset();
  sums_.reset();
  running_.clear();
  step_works_.clear();
  lookup_ = {};
}

bool StoreWorker::step() {
  if (joining_) {
    join();
    return !joining_;
  }
  bool moved = context_->engine->step();
  moved = step_relay() || moved;
  collect();
  watch_failures();
  for (int i = 0; i < 8 && violation_.empty() && network_.now() >= busy_until_ && advance(); ++i) {
    moved = true;
  }
  return moved;
}

// One thing more, if there is one to do.
bool StoreWorker::advance() {
  for (const auto& work : step_works_) {
    if (!work->done()) return false;
    if (!work->status().ok()) violate(work->status().to_string());
  }
  step_works_.clear();
  switch (phase_) {
    case Phase::kIdle:
      phase_ = Phase::kOpening;
      open();
      return true;
    case Phase::kOpening:
      phase_ = Phase::kFinding;
      if (scenario_.leader_of(rank_) != rank_) tensors_->leave();
      if (!scenario_.optimizer) return true;
      step_works_.push_back(tensors_->begin_optimizer(optimizer(), 0, kPatience));
      return true;
    case Phase::kFinding:
      if (!found()) find_next();
      return true;
    case Phase::kWorking:
      return work();
    case Phase::kFlushing:
      if (!running_.empty()) return false;
      phase_ = Phase::kWatching;
      clock_ = 1 + *std::max_element(scenario_.clocks.begin(), scenario_.clocks.end());
      for (ps::Client* client : in_use()) client->clock(clock_);  // holds nobody back
      return true;
    case Phase::kWatching:
    case Phase::kLooking:
      look();
      return false;
    case Phase::kOver:
      return false;
  }
  return false;
}

void StoreWorker::open() {
  ps::Rules rules;
  rules.bound = scenario_.bound;
  step_works_.push_back(client_->begin_open(rules, kPatience));
  if (tensors_ != client_) step_works_.push_back(tensors_->begin_open(rules, kPatience));
  if (!relay_links_.workers.empty()) {
    relay_ = std::make_unique<ps::Server>(relay_links_, tensors_);
  }
  if (sums_ != tensors_) step_works_.push_back(sums_->begin_open(rules, kPatience));
}

// A relay hears of a tensor from the first of its workers that uses it.
void StoreWorker::introduce(const ps::KeyDescription& key) {
  if (key.table || sums_ == tensors_) return;
  const Status announced = sums_->announce(key);
  if (!announced.ok()) violate(announced.to_string());
  step_works_.push_back(sums_->flush(kPatience));
}

// The key that was being made or looked up is there.
bool StoreWorker::found() {
  if (lookup_.work != nullptr) {
    const auto key = ps::decode_key(*lookup_.answer);
    const auto& expected = scenario_.keys[found_];
    if (!key.ok() || ps::encode(key.value()) != ps::encode(expected)) {
      violate("the directory has another '" + expected.name + "'");
    }
    lookup_ = {};
    introduce(scenario_.keys[found_++]);
  } else if (!first_value_.empty()) {
    first_value_.clear();
    client_->publish(scenario_.keys[found_]);
    introduce(scenario_.keys[found_++]);
  }
  if (found_ < scenario_.keys.size()) return false;
  phase_ = Phase::kWorking;
  plan_clock();
  return true;
}

void StoreWorker::find_next() {
  const auto& key = scenario_.keys[found_];
  if (rank_ != 0) {
    lookup_ = client_->begin_lookup(key.name, kPatience);
    step_works_.push_back(lookup_.work);
    return;
  }
  first_value_.assign(std::max<std::size_t>(1, key.count), 0);
  auto begun = keeper_of(found_).begin_create(key, first_value_.data(), kPatience);
  if (!begun.ok()) return violate(begun.status().to_string());
  step_works_.push_back(begun.value());
}

// Of each key some pushes and pulls, in this order in a bulk synchronous store, since a push after
// a pull would be late: that too happens now and then.
void StoreWorker::plan_clock() {
  std::vector<std::vector<Action>> by_key(scenario_.keys.size());
  for (std::size_t key = 0; key < by_key.size(); ++key) {
    auto& mine = by_key[key];
    const auto add = [&](Action::Kind kind) { mine.push_back({kind, key, below(3)}); };
    const bool uniform = scenario_.uniform;
    const int pushes = uniform ? 1 : below(4) == 0 ? 0 : 1 + (below(3) == 0 ? 1 : 0);
    if (below(4) == 0) add(Action::Kind::kPull);
    for (int i = 0; i < pushes; ++i) add(Action::Kind::kPush);
    if (uniform || below(3) != 0) add(Action::Kind::kPull);
    if (mine.size() >= 2 && mine.back().kind == Action::Kind::kPull &&
        mine[mine.size() - 2].kind == Action::Kind::kPush && !scenario_.keys[key].table &&
        below(2) == 0) {
      mine.resize(mine.size() - 2);
      add(Action::Kind::kPushPull);
    }
    const bool pulled = !mine.empty() && (mine.back().kind == Action::Kind::kPull ||
                                          mine.back().kind == Action::Kind::kPushPull);
    if (pulled && pushes > 0 && scenario_.is_bulk() && below(6) == 0) {
      add(Action::Kind::kLatePush);
    }
  }
  for (bool left = true; left;) {
    left = false;
    for (auto& mine : by_key) {
      if (mine.empty()) continue;
      left = true;
      if (below(2) == 0) continue;
      actions_.push_back(mine.front());
      mine.erase(mine.begin());
    }
  }
  if (below(4) == 0) actions_.push_back({Action::Kind::kFlush, 0, 0});
  // A pull after a push may wait until the others have pulled that key too, or ended their clocks.
  waits_ = (scenario_.uniform || !scenario_.is_bulk()) && below(2) == 0;
}

bool StoreWorker::work() {
  if (running_.size() >= (scenario_.is_bulk() ? kCallsMaxInBulk : kCallsMax)) return false;
  if (!actions_.empty()) {
    const Action action = actions_.front();
    actions_.pop_front();
    run(action);
    if (below(5) == 0) busy_until_ = network_.now() + below(10 * static_cast<int>(kMillisecond));
    return true;
  }
  if (waits_ && !running_.empty()) return false;
  ++clock_;
  for (ps::Client* client : in_use()) client->clock(clock_);
  ended_.clear();
  if (clock_ < scenario_.clocks[static_cast<std::size_t>(rank_)]) {
    plan_clock();
    return true;
  }
  flush();
  phase_ = Phase::kFlushing;
  return true;
}

void StoreWorker::run(const Action& action) {
  switch (action.kind) {
    case Action::Kind::kPush:
      return push(action, false);
    case Action::Kind::kLatePush:
      return push(action, true);
    case Action::Kind::kPull:
      return pull(action.key, action.priority);
    case Action::Kind::kPushPull:
      return push_pull(action);
    case Action::Kind::kFlush:
      return flush();
  }
}

ps::Client::Call StoreWorker::call(int priority) const {
  ps::Client::Call call;
  call.clock = clock_;
  call.priority = priority;
  call.timeout = kPatience;
  return call;
}

// Some rows, one of them perhaps twice.
std::vector<std::int64_t> StoreWorker::random_ids() {
  std::vector<std::int64_t> ids;
  for (std::int64_t id = 0; id < kTableRows; ++id) {
    if (below(3) == 0) ids.push_back(id);
  }
  if (ids.empty()) ids.push_back(below(kTableRows));
  std::shuffle(ids.begin(), ids.end(), random_);
  if (below(2) == 0) ids.push_back(ids.front());
  return ids;
}

void StoreWorker::push(const Action& action, bool late) {
  if (!late && !ledger_.has_room(rank_, action.key)) return;
  const auto& key = keys_[action.key];
  ps::Client& client = way_of(action.key);
  auto ids = key.table ? random_ids() : std::vector<std::int64_t>();
  if (late && ended_.count(action.key) == 0) return;
  auto running = std::make_unique<Running>();
  running->data = late ? ledger_.forged(rank_, action.key, clock_, ids.size())
                       : ledger_.push(rank_, action.key, clock_, ids);
  running->work = key.table ? client.push_rows(key, ids.data(), running->data.data(), ids.size(),
                                               call(action.priority))
                            : client.push(key, running->data.data(), call(action.priority));
  running_.push_back(std::move(running));
}

void StoreWorker::pull(std::size_t at, int priority) {
  const auto& key = keys_[at];
  ps::Client& client = way_of(at);
  auto ids = key.table ? random_ids() : std::vector<std::int64_t>();
  auto running = std::make_unique<Running>();
  running->pull = ledger_.pull(rank_, at, clock_, ids);
  if (running->pull->pushed) ended_.insert(at);
  running->data.assign(key.count * (key.table ? ids.size() : 1), -1);
  running->work = key.table ? client.pull_rows(key, ids.data(), running->data.data(), ids.size(),
                                               call(priority))
                            : client.pull(key, running->data.data(), call(priority));
  running_.push_back(std::move(running));
}

void StoreWorker::push_pull(const Action& action) {
  if (!ledger_.has_room(rank_, action.key)) return pull(action.key, action.priority);
  auto running = std::make_unique<Running>();
  running->data = ledger_.push(rank_, action.key, clock_, {});
  running->pull = ledger_.pull(rank_, action.key, clock_, {});
  if (running->pull->pushed) ended_.insert(action.key);
  running->work = sums_->push_pull(keys_[action.key], running->data.data(), call(action.priority));
  running_.push_back(std::move(running));
}

optim::Optimizer StoreWorker::optimizer() const {
  if (!scenario_.norms) return optim::Sgd(1);
  return optim::Lars(1).momentum(0).trust_coefficient(StoreLedger::kTrust);
}

void StoreWorker::flush() {
  for (ps::Client* client : in_use()) {
    auto running = std::make_unique<Running>();
    if (sums_ == client_) running->flush = ledger_.flush(rank_);  // else nobody is told of it
    running->work = client->flush(kPatience);
    running_.push_back(std::move(running));
  }
}

void StoreWorker::look() {
  if (phase_ == Phase::kWatching && last_) {
    phase_ = Phase::kLooking;
    for (std::size_t key = 0; key < scenario_.keys.size(); ++key) pull(key, 0);
    return;
  }
  const bool looked = phase_ == Phase::kLooking && running_.empty();
  if (!looked && !(phase_ == Phase::kWatching && leaves_)) return;
  for (ps::Client* client : in_use()) client->leave();
  phase_ = Phase::kOver;
}

void StoreWorker::collect() {
  std::erase_if(running_, [this](const std::unique_ptr<Running>& each) {
    if (!each->work->done()) return false;
    end(*each);
    return true;
  });
}

void StoreWorker::end(Running& running) {
  const Status status = running.work->status();
  if (!status.ok()) return violate(status.to_string());
  if (running.flush) ledger_.flushed(rank_, *running.flush);
  if (!running.pull) return;
  ++checked_;
  const std::string wrong = ledger_.check(*running.pull, running.data);
  if (!wrong.empty()) violate(wrong);
}

// Only what was meant to be late is refused.
void StoreWorker::watch_failures() {
  for (const auto& client : {client_, tensors_, sums_}) {
    const Status failure = client == nullptr ? Status() : client->take_failure();
    if (failure.ok()) continue;
    ++refused_;
    if (failure.code() != Code::kFailedPrecondition || !scenario_.is_bulk()) {
      violate("refused: " + failure.to_string());
    }
  }
}

void StoreWorker::violate(const std::string& what) {
  if (violation_.empty()) violation_ = "worker " + std::to_string(rank_) + ": " + what;
}

std::string StoreWorker::waiting() const {
  if (joining_) return joining_->waiting();
  return "worker " + std::to_string(rank_) + " in phase " +
         std::to_string(static_cast<int>(phase_)) + ", clock " + std::to_string(clock_) + ", " +
         std::to_string(running_.size()) + " calls";
}

}  // namespace syncline::sim
