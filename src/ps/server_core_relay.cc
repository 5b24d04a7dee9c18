// ServerCore: sums of a relay, on their way to the servers and back.
#include <algorithm>

#include "base/planted.h"
#include "ps/relay_slice.h"
#include "ps/server_core.h"

namespace syncline::ps {

Status ServerCore::create_relayed(Store& store, const KeyDescription& key) {
  if (key.table) return Status(Code::kCorrupt, "a table at a relay");
  const auto [at, made] = store.keys.try_emplace(key.key);
  Key& here = at->second;
  if (!made) {
    if (encode(here.description) == encode(key)) return {};
    return Status(Code::kMismatch, "two workers of a host describe one key differently");
  }
  here.description = key;
  for (std::size_t i = 0; i < key.slices.size(); ++i) {
    const auto slice = static_cast<std::uint32_t>(i);
    auto& part = here.parts[slice];
    part = std::make_unique<RelaySlice>(workers_, store.rules, key.dtype, key.slices[i].count,
                                        buffers_);
    part->place = {key.key, slice};
  }
  return {};
}

void ServerCore::relay_sums(Store& store, Part& part, std::uint64_t clock) {
  int priority = 0;
  for (const WaitingPull& pull : part.waiting) priority = std::max(priority, pull.request.priority);
  relay(store, part, clock, priority, static_cast<RelaySlice&>(part).take_sums());
}

// Without sums: only to see what `clock` begins with.
void ServerCore::relay(Store& store, Part& part, std::uint64_t clock, int priority,
                       std::vector<RoundSum> sums) {
  Relay relay;
  relay.store = store.number;
  relay.place = part.place;
  relay.clock = clock;
  relay.priority = priority;
  relay.sums = std::move(sums);
  relay.value = buffers_.take(static_cast<RelaySlice&>(part).bytes());
  relay.key = &store.keys.at(part.place.key).description;
  ++relays_under_way_;
  actions_.relays.push_back(std::move(relay));
}

void ServerCore::on_relayed(Relay relay, const Status& status) {
  --relays_under_way_;
  Store& store = stores_.at(relay.store);
  Request request;
  request.key = relay.place.key;
  request.slice = relay.place.slice;
  Part* const part = find_part(store, request);
  if (part == nullptr) return;
  auto& slice = static_cast<RelaySlice&>(*part);
  const bool closes = slice.is_closing() && !relay.sums.empty();
  if (!status.ok()) {
    lose(store, slice, status);
  } else if (closes) {
    slice.finish(relay.clock, std::move(relay.value));
  } else if (slice.lost().ok()) {
    slice.end_fetch(relay.clock, std::move(relay.value));
  }
  if (closes) part->gate.close(relay.clock);
  settle(store, *part);
  slice.forget(relay.clock);
  tell_clock(store);
  retire(relay.store);
}

// Who waits for the slice hears of it as a refusal, the others by a note.
void ServerCore::lose(Store& store, RelaySlice& slice, const Status& why) {
  if (!slice.lost().ok()) return;
  slice.lose(why);
  for (int worker = 0; worker < workers_; ++worker) {
    const auto waits = [worker](const WaitingPull& pull) { return pull.worker == worker; };
    if (!store.clocks.active(worker) ||
        std::any_of(slice.waiting.begin(), slice.waiting.end(), waits)) {
      continue;
    }
    Request note;
    note.store = store.number;
    note.kind = RequestKind::kPush;
    note.key = slice.place.key;
    refuse(worker, note, why);
  }
}

void ServerCore::refuse_lost(RelaySlice& slice) {
  if (slice.lost().ok()) return;
  for (const WaitingPull& pull : std::exchange(slice.waiting, {})) {
    let_go(pull.worker, waiting_cost(pull.request));
    refuse(pull.worker, pull.request, slice.lost());
  }
}

// Whether it is that of the clock that the pull is to see; if not it is asked for.
bool ServerCore::is_here(Store& store, Part& part, const WaitingPull& pull) {
  if (part.is_of(pull.version())) return true;
  auto& slice = static_cast<RelaySlice&>(part);
  if (slice.lost().ok() && slice.begin_fetch(pull.version())) {
    relay(store, part, pull.version(), pull.request.priority, {});
  }
  return false;
}

// The servers hear that a clock has ended once all workers here have ended it, and all that they
// pushed and asked for in it is on its way. It need not have arrived: others may wait for this news
// with what this host waits for.
void ServerCore::tell_clock(Store& store) {
  if (!relays_) return;
  std::uint64_t ended = store.clocks.closed();
  if (ended <= store.told) return;
  const auto holds_back = [&](const Part& part) {
    const auto& slice = static_cast<const RelaySlice&>(part);
    const auto open = part.gate.open_from(slice.sent_below());
    if (open.has_value() && !SYNCLINE_PLANTED(relay_clock_early)) ended = std::min(ended, *open);
    for (const WaitingPull& pull : part.waiting) {
      if (!slice.is_fetching(pull.version())) ended = std::min(ended, pull.version());
    }
    return ended <= store.told;
  };
  if (store.blocking != nullptr && holds_back(*store.blocking)) return;
  for (auto& [number, key] : store.keys) {
    for (auto& [slice, part] : key.parts) {
      store.blocking = part.get();
      if (holds_back(*part)) return;
    }
  }
  store.blocking = nullptr;
  store.told = ended;
  actions_.clocks_ended.push_back({store.number, ended});
}

}  // namespace syncline::ps
