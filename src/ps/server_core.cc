#include "ps/server_core.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/planted.h"

namespace syncline::ps {
namespace {

// The answer to a flush: an empty one would be a refusal.
constexpr std::array<std::byte, 1> kTaken{};
constexpr std::size_t kOptimizersMax = 1 << 16;

Status refusal(Code code, std::string why) { return Status(code, std::move(why)); }

bool is_relayed(RequestKind kind) {
  return kind == RequestKind::kCreate || kind == RequestKind::kPush || kind == RequestKind::kPull ||
         kind == RequestKind::kClock || kind == RequestKind::kFlush || kind == RequestKind::kLeave;
}

// What worker 0 makes a key with.
bool is_first_value(const Request& request) {
  return request.kind == RequestKind::kAssign || request.kind == RequestKind::kRestore;
}

Result<std::size_t> payload_bytes(const Part& part, const Request& request) {
  if (request.kind != RequestKind::kRestore) return part.push_bytes(request);
  if (part.takes_state(request.count)) return static_cast<std::size_t>(request.count);
  return Status(Code::kCorrupt, "has a state of " + std::to_string(request.count) + " bytes");
}

}  // namespace

Status ServerCore::on_request(int worker, Inline message) {
  const auto request = decode_request(message);
  if (!request.ok()) return request.status();
  const Inline body = message.subspan(kRequestHeaderBytes);
  if (request->kind == RequestKind::kOpen) return open(worker, request.value(), body);
  const auto store = stores_.find(request->store);
  if (store == stores_.end()) return refusal(Code::kCorrupt, "a request to a store never opened");
  const Status status = serve(store->second, worker, request.value(), body);
  if (status.code() == Code::kCorrupt) return status;
  if (!status.ok()) refuse(worker, request.value(), status);
  return {};
}

Status ServerCore::open(int worker, const Request& request, Inline body) {
  const auto rules = decode_rules(body);
  if (!rules.ok()) return rules.status();
  const bool another = !stores_.empty() && stores_.count(request.store) == 0;
  if (relays_ && (another || !rules->is_bulk())) {
    return refusal(Code::kCorrupt, "a relay is of one bulk synchronous store");
  }
  const auto [store, made] =
      stores_.try_emplace(request.store, request.store, workers_, rules.value());
  if (made) {
    for (int w = 0; w < workers_; ++w) {
      if (!here_[static_cast<std::size_t>(w)]) store->second.clocks.leave(w);
    }
  } else if (store->second.rules != rules.value()) {
    refuse(worker, request,
           refusal(Code::kMismatch,
                   "the workers opened this store with different options; use the same "
                   "consistency and reduction on all of them"));
    return {};
  }
  reply(worker, request, encode(rules.value()));  // not empty, as a refusal's answer is
  return {};
}

Status ServerCore::serve(Store& store, int worker, const Request& request, Inline body) {
  if (relays_ && !is_relayed(request.kind)) {
    return refusal(Code::kCorrupt, "a request that relays do not take");
  }
  const bool makes = (request.kind == RequestKind::kCreate && !relays_) ||
                     request.kind == RequestKind::kAssign ||
                     request.kind == RequestKind::kPublish || request.kind == RequestKind::kRestore;
  if (makes && worker != 0) return refusal(Code::kCorrupt, "only worker 0 makes keys");
  switch (request.kind) {
    case RequestKind::kOpen:
      break;
    case RequestKind::kCreate:
      return create(store, body);
    case RequestKind::kPublish:
      return publish(store, body);
    case RequestKind::kLookup:
      return lookup(store, worker, request, body);
    case RequestKind::kOptimizer:
      return set_optimizer(store, worker, request, body);
    case RequestKind::kAssign:
    case RequestKind::kPush:
    case RequestKind::kPushRows:
    case RequestKind::kRestore:
      return push(store, worker, request, body);
    case RequestKind::kPull:
    case RequestKind::kPullRows:
    case RequestKind::kState:
      return pull(store, worker, request, body);
    case RequestKind::kClock: {
      const Status status = store.clocks.advance(worker, request.clock);
      settle_all(store);
      forget_optimizers(store);
      tell_clock(store);
      return status;
    }
    case RequestKind::kFlush:
      return flush(worker, request);
    case RequestKind::kLeave:
      leave(store, worker);
      retire(request.store);
      return {};
    case RequestKind::kStats:
      stats(store, worker, request);
      return {};
  }
  return refusal(Code::kCorrupt, "a request of an unknown kind");
}

Status ServerCore::create(Store& store, Inline body) {
  auto description = decode_key(body);
  if (!description.ok()) return description.status();
  if (description->optimizer.has_value()) {
    if (!check(*description->optimizer).ok()) {
      return refusal(Code::kCorrupt, "a table's optimiser that does not verify");
    }
    const Status known = check_known(*description->optimizer);
    if (!known.ok()) return known;
  }
  if (relays_) return create_relayed(store, description.value());
  if (description->dtype == DType::kBool && store.rules.combine != Combine::kSum) {
    return refusal(Code::kCorrupt, "a mean of bools");
  }
  const auto [at, made] = store.keys.try_emplace(description->key);
  if (!made) return refusal(Code::kCorrupt, "a key that exists is created again");
  Key& key = at->second;
  key.description = std::move(description).value();
  const KeyDescription& d = key.description;
  const bool updates = d.table ? d.optimizer.has_value() : !store.optimizers.empty();
  const bool immediate =
      store.rules.bound == kUnbounded || (store.rules.bound > 0 && (updates || d.table));
  if (d.table) {
    auto& part = key.parts[0];
    part = std::make_unique<TablePart>(workers_, store.rules, immediate, d, buffers_);
    part->place = {d.key, 0};
    return {};
  }
  const bool cut = d.slices.size() > 1;
  const auto long_slice = [](const PlacedSlice& s) { return s.count > kSliceElementsMax; };
  if (cut && std::any_of(d.slices.begin(), d.slices.end(), long_slice)) {
    store.keys.erase(at);
    return refusal(Code::kCorrupt, "slices that are too long");
  }
  if (cut) key.norms.emplace(d.slices.size());
  for (std::size_t i = 0; i < d.slices.size(); ++i) {
    if (d.slices[i].server != server_) continue;
    const auto slice = static_cast<std::uint32_t>(i);
    auto& part = key.parts[slice];
    part = std::make_unique<DenseSlice>(workers_, store.rules, immediate, d.dtype,
                                        d.slices[i].count, cut, buffers_);
    part->place = {d.key, slice};
  }
  return {};
}

Status ServerCore::publish(Store& store, Inline body) {
  const auto description = decode_key(body);
  if (!description.ok()) return description.status();
  const std::string& name = description->name;
  const auto& bytes = store.directory[name] = {body.begin(), body.end()};
  const auto waits = [&](const Lookup& each) {
    if (each.name != name) return false;
    let_go(each.worker, waiting_cost(each.request));
    reply(each.worker, each.request, bytes);
    return true;
  };
  std::erase_if(store.lookups, waits);
  return {};
}

Status ServerCore::lookup(Store& store, int worker, const Request& request, Inline body) {
  if (body.size() > kKeyNameMax) return refusal(Code::kCorrupt, "a key's name that is too long");
  std::string name(reinterpret_cast<const char*>(body.data()), body.size());
  const auto found = store.directory.find(name);
  if (found != store.directory.end()) {
    reply(worker, request, found->second);
  } else {
    const Status fits = wait_with(worker, waiting_cost(request));
    if (!fits.ok()) return fits;
    store.lookups.push_back({worker, request, std::move(name)});
  }
  return {};
}

Status ServerCore::set_optimizer(Store& store, int worker, const Request& request, Inline body) {
  const auto optimizer = decode_optimizer(body);
  if (!optimizer.ok()) return optimizer.status();
  Status usable = check(optimizer.value());
  if (usable.ok()) usable = check_known(optimizer.value());
  if (!usable.ok()) return usable;
  if (store.optimizers.empty() && !store.keys.empty() && !store.rules.is_bulk()) {
    return refusal(Code::kFailedPrecondition, "set_optimizer comes before the first init");
  }
  if (optimizer->kind() == optim::Kind::kRowwiseAdagrad) {
    return refusal(Code::kInvalidArgument, "row-wise optimisers are for tables");
  }
  if (store.optimizers.size() >= kOptimizersMax) {
    return refusal(Code::kExhausted, "a store keeps at most 65536 optimisers of open clocks");
  }
  Store::Setting& setting = store.optimizers[request.clock];
  setting.set_by.resize(static_cast<std::size_t>(workers_));
  const std::size_t turn = setting.set_by[static_cast<std::size_t>(worker)]++;
  if (turn >= kOptimizersMax) return refusal(Code::kExhausted, "too many optimisers in one clock");
  if (turn == setting.in_turn.size()) {
    setting.in_turn.push_back(optimizer.value());
  } else if (encode(setting.in_turn[turn]) != encode(optimizer.value())) {
    return refusal(Code::kMismatch, "worker " + std::to_string(worker) +
                                        " sets another optimiser than an earlier worker did in "
                                        "the same clock; set the same one on all of them");
  }
  return {};
}

// No push of a closed clock will come any more, but for payloads that are on their way.
void ServerCore::forget_optimizers(Store& store) {
  std::uint64_t oldest = store.clocks.closed();
  for (const auto& [id, payload] : payloads_) {
    if (payload.request.store == store.number) oldest = std::min(oldest, payload.request.clock);
  }
  auto needed = store.optimizers.upper_bound(oldest);
  if (needed == store.optimizers.begin()) return;
  store.optimizers.erase(store.optimizers.begin(), std::prev(needed));
}

UpdateRule ServerCore::rule_at(const Store& store, std::uint64_t clock) const {
  UpdateRule rule;
  rule.combine = store.rules.combine;
  rule.scale_by_age = store.rules.scale_by_age;
  auto at = store.optimizers.upper_bound(clock);
  if (at != store.optimizers.begin()) rule.optimizer = &std::prev(at)->second.in_turn.back();
  return rule;
}

std::string ServerCore::key_name(const Store& store, const Request& request) const {
  const auto key = store.keys.find(request.key);
  if (key == store.keys.end()) return "key number " + std::to_string(request.key);
  return "key '" + key->second.description.name + "'";
}

Part* ServerCore::find_part(Store& store, const Request& request) {
  const auto key = store.keys.find(request.key);
  if (key == store.keys.end()) return nullptr;
  const auto part = key->second.parts.find(request.slice);
  return part == key->second.parts.end() ? nullptr : part->second.get();
}

Status ServerCore::push(Store& store, int worker, const Request& request, Inline body) {
  Part* const part = find_part(store, request);
  // The payload comes all the same, so that a refusal of it would have to take it too.
  const Status fits = check_push(store, part, worker, request);
  if (!fits.ok()) return fits;
  const Result<std::size_t> bytes = payload_bytes(*part, request);
  if (!bytes.ok()) return refusal(Code::kCorrupt, "a push that " + bytes.status().message());
  if (request.separate ? !body.empty() : body.size() != bytes.value()) {
    return refusal(Code::kCorrupt, "a push that is not as long as it says");
  }
  Payload payload;
  payload.worker = worker;
  payload.request = request;
  payload.bytes = bytes.value();
  payload.data = buffers_.take(payload.bytes);
  Status late;
  if (!is_first_value(request)) {
    const auto layer = place_push(store, *part, worker, request);
    late = layer.status();
    payload.layer = layer.ok() ? layer.value() : -1;
  }
  if (!late.ok()) refuse(worker, request.answers ? pull_behind(request) : request, late);
  std::uint64_t id = 0;
  if (request.separate) {
    id = next_id_++;
    actions_.receives.push_back({id, worker, request.tag, payload.data, payload.bytes});
    payloads_.emplace(id, std::move(payload));
  } else {
    std::copy(body.begin(), body.end(), payload.data.get());
    take_in(std::move(payload));
  }
  if (!request.answers || !late.ok()) return {};
  const Request behind = pull_behind(request);
  const Status asked = pull(store, worker, behind, {}, id);
  if (asked.ok() || asked.code() == Code::kCorrupt) return asked;
  refuse(worker, behind, asked);
  return {};
}

// What a push that answers asks for.
Request ServerCore::pull_behind(const Request& push) {
  Request pull = push;
  pull.kind = RequestKind::kPull;
  pull.tag = push.tag + 1;
  return pull;
}

Status ServerCore::check_push(const Store& store, const Part* part, int worker,
                              const Request& request) const {
  if (part == nullptr) return refusal(Code::kCorrupt, "a push to a slice that is not here");
  if (request.kind != RequestKind::kRestore &&
      part->is_table() != (request.kind == RequestKind::kPushRows)) {
    return refusal(Code::kCorrupt, "a push of rows to a tensor, or of a tensor to a table");
  }
  if (is_first_value(request)) {
    if (!part->has_value() || part->is_table()) return {};
    return refusal(Code::kCorrupt, "a first value for a slice that has one");
  }
  if (!part->has_value()) return refusal(Code::kCorrupt, "a push to a slice without a value");
  const std::uint64_t now = store.clocks.clock_of(worker);
  if (request.clock <= now || request.clock - now <= kClocksAheadMax) return {};
  return refusal(Code::kCorrupt, "a push of a clock that is far away");
}

// Its layer; not ok: it comes too late.
Result<int> ServerCore::place_push(Store& store, Part& part, int worker, const Request& request) {
  if (!store.clocks.active(worker)) {
    return refusal(Code::kFailedPrecondition, "a push after this worker has left the store");
  }
  if (request.clock < store.clocks.clock_of(worker)) {
    return refusal(Code::kFailedPrecondition, "a push of clock " + std::to_string(request.clock) +
                                                  ", which this worker has ended");
  }
  const bool continues = request.continues && part.is_table();
  return part.gate.begin_push(worker, request.clock, continues);
}

void ServerCore::on_payload(std::uint64_t id, bool arrived) {
  const auto at = payloads_.find(id);
  if (at == payloads_.end()) return;
  Payload payload = std::move(at->second);
  payloads_.erase(at);
  const int worker = payload.worker;
  const Request request = payload.request;
  const bool counted = payload.layer >= 0 && !is_first_value(request);
  if (arrived) {
    take_in(std::move(payload));
  } else if (counted) {
    settle_push(request, worker);
  }
  answer_flushes(worker);
  retire(request.store);
}

// The push has ended, one way or the other.
void ServerCore::settle_push(const Request& request, int worker) {
  Store& store = stores_.at(request.store);
  Part& part = *find_part(store, request);
  part.gate.end_push(worker, request.clock);
  settle(store, part);
  tell_clock(store);
}

void ServerCore::take_in(Payload payload) {
  const Request& request = payload.request;
  if (payload.layer < 0 && !SYNCLINE_PLANTED(refused_push_taken)) return;
  Store& store = stores_.at(request.store);
  Part& part = *find_part(store, request);
  if (request.kind == RequestKind::kAssign) {
    static_cast<DenseSlice&>(part).assign(std::move(payload.data));
    return;
  }
  if (request.kind == RequestKind::kRestore) {
    const Status restored = part.restore({payload.data.get(), payload.bytes});
    if (!restored.ok()) refuse(payload.worker, request, restored);
    return;
  }
  Contribution contribution;
  contribution.worker = payload.worker;
  contribution.layer = payload.layer;
  contribution.clock = request.clock;
  contribution.samples = store.rules.combine == Combine::kMeanBySamples ? request.samples : 1;
  contribution.data = std::move(payload.data);
  contribution.count = static_cast<std::size_t>(request.count);
  contribution.summed = request.summed;
  contribution.weighted = request.weighted;
  if (request.kind == RequestKind::kPushRows) {
    const auto& table = static_cast<TablePart&>(part);
    const auto* ids = reinterpret_cast<const std::int64_t*>(contribution.data.get());
    const std::string bad = table.refuse_ids(ids, contribution.count);
    if (!bad.empty()) {
      refuse(payload.worker, request, refusal(Code::kInvalidArgument, bad));
      return settle_push(request, payload.worker);
    }
  }
  if (contribution.count == 0) return settle_push(request, payload.worker);  // news only
  if (part.gate.immediate()) {
    if (SYNCLINE_PLANTED(push_applied_twice) && !part.is_table()) {
      Contribution again = contribution;
      part.apply(std::move(again), rule_at(store, request.clock));
    }
    part.apply(std::move(contribution), rule_at(store, request.clock));
  } else {
    part.keep(std::move(contribution));
  }
  settle_push(request, payload.worker);
}

Status ServerCore::pull(Store& store, int worker, const Request& request, Inline body,
                        std::uint64_t behind_payload) {
  Part* const part = find_part(store, request);
  if (part == nullptr) return refusal(Code::kCorrupt, "a pull from a slice that is not here");
  const bool asks_state = request.kind == RequestKind::kState;
  if ((!asks_state && part->is_table() != (request.kind == RequestKind::kPullRows)) ||
      !part->has_value() || (asks_state && !body.empty())) {
    return refusal(Code::kCorrupt, "a pull that does not fit its key");
  }
  WaitingPull pull;
  pull.worker = worker;
  pull.request = request;
  pull.behind_payload = behind_payload;
  if (!asks_state && part->is_table() && request.count == 0 &&
      body.empty()) {  // news only: of other servers' rows
    part->gate.note_pull(worker, request.clock);
    settle(store, *part);
    return {};
  }
  if (part->is_table() && !asks_state) {
    const Status read = read_ids(static_cast<TablePart&>(*part), pull, body);
    if (!read.ok()) return read;
  }
  const Status fits = wait_with(worker, waiting_cost(request));
  if (!fits.ok()) return fits;
  pull.after_push = part->gate.note_pull(worker, request.clock);
  part->waiting.push_back(std::move(pull));
  settle(store, *part);
  return {};
}

Status ServerCore::read_ids(const TablePart& table, WaitingPull& pull, Inline body) {
  const std::size_t count = body.size() / sizeof(std::int64_t);
  if (body.size() % sizeof(std::int64_t) != 0 || pull.request.count != count || count == 0 ||
      table.pull_bytes(count) > kRowBytesMax) {
    return refusal(Code::kCorrupt, "a pull of rows that does not verify");
  }
  pull.ids = buffers_.take(body.size());
  std::copy(body.begin(), body.end(), pull.ids.get());
  const std::string bad =
      table.refuse_ids(reinterpret_cast<const std::int64_t*>(pull.ids.get()), count);
  return bad.empty() ? Status() : refusal(Code::kInvalidArgument, bad);
}

// Closes what may close. A pull is answered as soon as it may be: when someone leaves, several
// rounds may close at once, and each clock has its own value.
void ServerCore::settle_one(Store& store, Part& part) {
  while (!part.is_closing()) {
    const auto clock = part.gate.closable(store.clocks);
    if (!clock.has_value()) break;
    part.gate.close_below(*clock);
    if (!SYNCLINE_PLANTED(rounds_skipped)) answer_pulls(store, part);
    if (!part.close(*clock, rule_at(store, *clock))) {
      close_with_others(store, part, *clock);
      break;
    }
    part.gate.close(*clock);
  }
  answer_pulls(store, part);
  if (relays_) return refuse_lost(static_cast<RelaySlice&>(part));
  tell_of_nothing(store, part);
  refuse_orphans(store, part);
}

void ServerCore::close_with_others(Store& store, Part& part, std::uint64_t clock) {
  if (relays_) return relay_sums(store, part, clock);
  tell_sums(store, part, clock, static_cast<DenseSlice&>(part).own_sums());
}

// A step of one slice may be what others of its tensor wait for: they settle in turn.
void ServerCore::settle(Store& store, Part& part) {
  unsettled_.emplace_back(&store, &part);
  if (std::exchange(settling_, true)) return;
  while (!unsettled_.empty()) {
    const auto [in, next] = unsettled_.front();
    unsettled_.pop_front();
    settle_one(*in, *next);
  }
  settling_ = false;
}

void ServerCore::answer_pulls(Store& store, Part& part) {
  std::erase_if(part.waiting, [&](const WaitingPull& pull) {
    if (payloads_.count(pull.behind_payload) > 0 ||
        !part.gate.may_read(pull.worker, pull.request.clock, pull.after_push, store.clocks) ||
        !is_here(store, part, pull)) {
      return false;
    }
    let_go(pull.worker, waiting_cost(pull.request));
    Answer answer = pull.request.kind == RequestKind::kState
                        ? part.state(pull.request, rule_at(store, pull.request.clock))
                        : part.answer(pull).value();
    const std::size_t bytes = answer.count * size_of(answer.type);
    actions_.replies.push_back(
        {pull.worker, pull.request.tag, pull.request.priority, std::move(answer.data), bytes});
    return true;
  });
}

void ServerCore::settle_all(Store& store) {
  for (auto& [number, key] : store.keys) {
    for (auto& [slice, part] : key.parts) settle(store, *part);
  }
}

void ServerCore::leave(Store& store, int worker) {
  if (!SYNCLINE_PLANTED(dead_worker_counts) || here_[static_cast<std::size_t>(worker)]) {
    store.clocks.leave(worker);
  }
  std::erase_if(store.lookups, [&](const Lookup& each) {
    if (each.worker != worker) return false;
    let_go(worker, waiting_cost(each.request));
    return true;
  });
  settle_all(store);
  tell_clock(store);
}

// Nobody uses the store any more, and nothing is under way to it: its memory is free.
void ServerCore::retire(std::uint16_t number) {
  Store& store = stores_.at(number);
  if (store.clocks.slowest() >= 0 || store.keys.empty() || relays_under_way_ > 0) return;
  const auto into = [number](const auto& each) { return each.second.request.store == number; };
  if (std::any_of(payloads_.begin(), payloads_.end(), into)) return;
  store.blocking = nullptr;
  store.keys.clear();
  store.directory.clear();
}

Status ServerCore::wait_with(int worker, std::size_t bytes) {
  std::size_t& waiting = waiting_bytes_[static_cast<std::size_t>(worker)];
  if (waiting + bytes > kWaitingBytesMax) {
    return refusal(Code::kExhausted,
                   "too many of this worker's requests wait for other workers; wait for some of "
                   "them before more are made");
  }
  waiting += bytes;
  return {};
}

void ServerCore::let_go(int worker, std::size_t bytes) {
  waiting_bytes_[static_cast<std::size_t>(worker)] -= bytes;
}

void ServerCore::on_gone(int worker) {
  here_[static_cast<std::size_t>(worker)] = false;
  std::vector<std::uint64_t> lost;
  for (const auto& [id, payload] : payloads_) {
    if (payload.worker == worker) lost.push_back(id);
  }
  for (const std::uint64_t id : lost) on_payload(id, false);
  std::erase_if(flushes_, [&](const Flush& each) { return each.worker == worker; });
  for (auto& [number, store] : stores_) {
    for (auto& [key_number, key] : store.keys) {
      for (auto& [slice, part] : key.parts) {
        std::erase_if(part->waiting,
                      [&](const WaitingPull& pull) { return pull.worker == worker; });
      }
    }
    std::erase_if(store.lookups, [&](const Lookup& each) { return each.worker == worker; });
  }
  waiting_bytes_[static_cast<std::size_t>(worker)] = 0;
  for (auto& [number, store] : stores_) {
    leave(store, worker);
    retire(number);
  }
}

Status ServerCore::flush(int worker, const Request& request) {
  const Status fits = wait_with(worker, waiting_cost(request));
  if (!fits.ok()) return fits;
  flushes_.push_back({worker, request, next_id_});
  answer_flushes(worker);
  return {};
}

void ServerCore::answer_flushes(int worker) {
  std::uint64_t oldest = UINT64_MAX;
  for (const auto& [id, payload] : payloads_) {  // in the order of ids
    if (payload.worker != worker) continue;
    oldest = id;
    break;
  }
  if (SYNCLINE_PLANTED(flush_waits_for_nothing)) oldest = UINT64_MAX;
  std::erase_if(flushes_, [&](const Flush& each) {
    if (each.worker != worker || oldest < each.before) return false;
    let_go(worker, waiting_cost(each.request));
    reply(worker, each.request, kTaken);
    return true;
  });
}

void ServerCore::stats(const Store& store, int worker, const Request& request) {
  ServerStats stats;
  stats.closed = store.clocks.closed();
  for (const auto& [number, key] : store.keys) {
    ++stats.keys;
    for (const auto& [slice, part] : key.parts) {
      const PartSizes sizes = part->sizes();
      stats.value_bytes += sizes.value;
      stats.state_bytes += sizes.state;
      stats.held_bytes += sizes.held;
      stats.rows += sizes.rows;
      stats.updates += part->ages.updates;
      stats.age_sum += part->ages.sum;
      stats.age_max = std::max(stats.age_max, part->ages.max);
    }
  }
  for (const auto& [id, payload] : payloads_) stats.held_bytes += payload.bytes;
  reply(worker, request, encode(stats));
}

std::uint64_t ServerCore::held_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [number, store] : stores_) {
    for (const auto& [key_number, key] : store.keys) {
      for (const auto& [slice, part] : key.parts) bytes += part->sizes().held;
    }
  }
  for (const auto& [id, payload] : payloads_) bytes += payload.bytes;
  return bytes;
}

std::size_t ServerCore::expected_bytes(int worker) const {
  std::size_t bytes = 0;
  for (const auto& [id, payload] : payloads_) {
    if (payload.worker == worker) bytes += payload.bytes;
  }
  return bytes;
}

// Rounds that nobody closes fill the memory: a worker may be one clock ahead of what the rules let
// it read, whose pushes are needed anyway.
bool ServerCore::is_ahead(int worker, std::uint16_t number) const {
  const auto at = stores_.find(number);
  if (at == stores_.end()) return false;
  const Store& store = at->second;
  return store.rules.bound != kUnbounded && store.clocks.active(worker) &&
         store.clocks.clock_of(worker) > store.clocks.closed() + 1 &&
         store.clocks.clock_of(worker) - store.clocks.closed() - 1 > store.rules.bound;
}

bool ServerCore::is_over() const {
  return !stores_.empty() && relays_under_way_ == 0 &&
         std::all_of(stores_.begin(), stores_.end(),
                     [](const auto& each) { return each.second.clocks.slowest() < 0; });
}

void ServerCore::reply(int worker, const Request& request, std::span<const std::byte> bytes) {
  Buffer data = buffers_.take(bytes.size());
  std::copy(bytes.begin(), bytes.end(), data.get());
  actions_.replies.push_back({worker, request.tag, INT32_MAX, std::move(data), bytes.size()});
}

// The note goes first; then an empty answer ends what waits for one.
void ServerCore::refuse(int worker, const Request& request, const Status& why) {
  std::string text = why.message();
  const bool of_key = request.kind == RequestKind::kPush || request.kind == RequestKind::kPull ||
                      request.kind == RequestKind::kPushRows ||
                      request.kind == RequestKind::kPullRows ||
                      request.kind == RequestKind::kState || request.kind == RequestKind::kRestore;
  if (of_key) {
    const auto store = stores_.find(request.store);
    if (store != stores_.end()) text = key_name(store->second, request) + ": " + text;
  }
  Request note = request;
  note.tag = error_tag(request.store);
  reply(worker, note, encode(ErrorNote{request.tag, why.code(), std::move(text)}));
  const bool awaited = request.kind == RequestKind::kOpen || request.kind == RequestKind::kLookup ||
                       request.kind == RequestKind::kPull ||
                       request.kind == RequestKind::kPullRows ||
                       request.kind == RequestKind::kState || request.kind == RequestKind::kFlush;
  if (awaited) reply(worker, request, {});
}

}  // namespace syncline::ps
