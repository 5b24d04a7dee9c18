// ServerCore: steps of tensors whose norms other servers know in part.
#include <algorithm>

#include "base/planted.h"
#include "ps/server_core.h"

namespace syncline::ps {

bool ServerCore::exchanges_norms() const {
  return std::any_of(stores_.begin(), stores_.end(), [](const auto& each) {
    const auto& optimizers = each.second.optimizers;
    return each.second.rules.is_bulk() &&
           std::any_of(optimizers.begin(), optimizers.end(), [](const auto& setting) {
             return needs_norms(setting.second.in_turn.back());
           });
  });
}

// The slice's own sums are there; none: it does not step.
void ServerCore::tell_sums(Store& store, Part& part, std::uint64_t clock,
                           std::vector<SquareSums> sums) {
  Key& key = store.keys.at(part.place.key);
  const SumsNote note{store.number, part.place.key, part.place.slice, clock, std::move(sums)};
  const std::vector<std::byte> bytes = encode(note);
  std::vector<bool> told(static_cast<std::size_t>(servers_));
  for (const PlacedSlice& slice : key.description.slices) {
    const auto server = static_cast<std::size_t>(slice.server);
    if (slice.server == server_ || server >= told.size() || told[server]) continue;
    told[server] = true;
    actions_.tells.push_back({slice.server, bytes});
  }
  key.norms->add(clock, note.slice, note.sums);
  finish_steps(store, key, clock);
}

// Once all slices have said theirs.
void ServerCore::finish_steps(Store& store, Key& key, std::uint64_t clock) {
  const auto sums = key.norms->whole(clock);
  if (!sums.has_value()) return;
  key.norms->forget(clock);
  for (auto& [number, part] : key.parts) {
    auto& slice = static_cast<DenseSlice&>(*part);
    if (slice.stepping() != clock) continue;
    slice.finish_step(*sums);
    part->gate.close(clock);
    settle(store, *part);
  }
}

// Others wait for what this slice has to say of a clock, and nothing of it will come any more.
void ServerCore::tell_of_nothing(Store& store, Part& part) {
  const auto& norms = store.keys.at(part.place.key).norms;
  if (!norms.has_value() || SYNCLINE_PLANTED(silent_slices)) return;
  for (const std::uint64_t clock : norms->clocks()) {
    if (norms->knows(clock, part.place.slice) || !part.gate.has_passed(clock, store.clocks))
      continue;
    tell_sums(store, part, clock, {});
  }
}

Status ServerCore::on_sums(int server, std::span<const std::byte> message) {
  auto note = decode_sums(message);
  if (!note.ok()) return note.status();
  const auto store = stores_.find(note->store);
  if (store == stores_.end()) return {};
  const auto found = store->second.keys.find(note->key);
  if (found == store->second.keys.end()) return {};  // everybody has left the store
  Key& key = found->second;
  const auto& slices = key.description.slices;
  if (!key.norms.has_value() || note->slice >= slices.size() ||
      slices[note->slice].server != server ||
      !key.norms->add(note->clock, note->slice, std::move(note->sums))) {
    return Status(Code::kCorrupt, "sums of squares that nobody can have sent");
  }
  finish_steps(store->second, key, note->clock);
  for (auto& [number, part] : key.parts) settle(store->second, *part);
  return {};
}

// Tensors that it has a part of never step again: their pulls end now, not at their deadlines.
void ServerCore::on_server_gone(int server) {
  if (servers_gone_.count(server) > 0) return;
  servers_gone_.insert(server);
  for (auto& [number, store] : stores_) {
    for (auto& [key_number, key] : store.keys) {
      for (auto& [slice, part] : key.parts) refuse_orphans(store, *part);
    }
  }
}

void ServerCore::refuse_orphans(Store& store, Part& part) {
  const Key& key = store.keys.at(part.place.key);
  if (servers_gone_.empty() || !key.norms.has_value() || !exchanges_norms()) return;
  const auto& slices = key.description.slices;
  const auto lost = std::find_if(slices.begin(), slices.end(), [&](const PlacedSlice& slice) {
    return servers_gone_.count(slice.server) > 0;
  });
  if (lost == slices.end()) return;
  for (const WaitingPull& pull : std::exchange(part.waiting, {})) {
    let_go(pull.worker, waiting_cost(pull.request));
    refuse(pull.worker, pull.request,
           Status(Code::kPeerLost, "server " + std::to_string(lost->server) +
                                       ", which has a part of this tensor, is gone"));
  }
}

}  // namespace syncline::ps
