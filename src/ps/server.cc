#include "ps/server.h"

#include <algorithm>

namespace syncline::ps {
namespace {

constexpr Nanos kNeverLate = 0;
constexpr std::size_t kCallsMax = 32;

}  // namespace

Server::Server(const ServerLinks& links, std::shared_ptr<Client> servers)
    : links_(links),
      servers_(std::move(servers)),
      core_(static_cast<int>(links.workers.size()), links.server,
            static_cast<int>(std::max<std::size_t>(links.peers.size(), 1)),
            servers_ == nullptr ? ServerRole::kKeeper : ServerRole::kRelay),
      events_(std::make_shared<ServerEvents>(links.engine)),
      pairs_(links.workers.size()) {
  for (std::size_t w = 0; w < pairs_.size(); ++w) {
    for (std::size_t slot = 0; slot < kSlots; ++slot) listen(w, slot);
  }
  submit_calls();
}

bool Server::step() {
  const auto events = events_->take();
  for (const ServerEvent& event : events) handle(event);
  drain_all();
  if (notes_.empty() && core_.exchanges_norms()) listen_to_servers();
  submit_calls();
  return !events.empty();
}

bool Server::is_over() const {
  return present_ == 0 || (links_.ends_with_stores && core_.is_over() && replies_.empty());
}

void Server::submit(Message message, ServerEvent event) {
  exec::MessageRequest request;
  request.group = links_.workers[message.worker].get();
  request.sends = message.sends;
  request.peer = kWorkerSide;  // also of a group of one
  request.tag = message.tag;
  request.data = message.data;
  request.count = message.bytes;
  request.type = DType::kU8;
  request.segment_bytes = links_.segment_bytes;
  request.timeout = kNeverLate;
  request.at_once = true;  // whoever asked has posted its receive
  request.info = message.info;
  event.worker = message.worker;
  exec::Engine::Call call;
  call.message = std::move(request);
  call.work = std::make_shared<WorkState>(links_.engine);
  call.work->on_complete([events = events_, event, message](const Status& status) mutable {
    // A payload that is shorter than announced was given up.
    const bool whole =
        event.kind != ServerEvent::Kind::kPayload || message.info->count == message.bytes;
    event.ok = status.ok() && whole;
    message.keep = nullptr;  // before the event: whoever handles it may be the only one
    events->post(event);
  });
  calls_.push_back(std::move(call));
  if (calls_.size() >= kCallsMax) submit_calls();
}

void Server::submit_calls() {
  links_.engine->submit(calls_);
  calls_.clear();
}

void Server::listen(std::size_t worker, std::size_t index) {
  Slot& slot = pairs_[worker].slots[index];
  slot.done = false;
  submit(
      {worker, false, kRequestTag, slot.bytes->data(), slot.bytes->size(), slot.bytes, slot.info},
      {ServerEvent::Kind::kRequest, worker, index, false});
}

void Server::handle(const ServerEvent& event) {
  switch (event.kind) {
    case ServerEvent::Kind::kRequest:
      pairs_[event.worker].slots[event.id].done = true;
      if (!event.ok) lose(event.worker);
      return;
    case ServerEvent::Kind::kNote:
      return take_note(event);
    case ServerEvent::Kind::kRelayed:
      return take_relayed(event.id);
    case ServerEvent::Kind::kPayload:
      core_.on_payload(event.id, event.ok);
      act();
      return;
    case ServerEvent::Kind::kReply: {
      Pair& pair = pairs_[event.worker];
      const auto at = replies_.find(event.id);
      pair.in_flight -= at->second.bytes;
      pair.owed -= at->second.bytes;
      replies_.erase(at);
      send_replies(event.worker);
      return;
    }
  }
}

// One worker's request may be what another's waits for.
void Server::drain_all() {
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t w = 0; w < pairs_.size(); ++w) moved = drain(w) || moved;
  }
}

bool Server::must_wait(std::size_t worker) const {
  return core_.expected_bytes(static_cast<int>(worker)) >= kExpectedBytesMax ||
         pairs_[worker].owed >= kOwedBytesMax;
}

bool Server::drain(std::size_t worker) {
  Pair& pair = pairs_[worker];
  bool moved = take_held(worker);
  while (!pair.gone && pair.slots[pair.head].done && !must_wait(worker) &&
         pair.held_bytes < kHeldBytesMax) {
    const Slot& slot = pair.slots[pair.head];
    const std::span<const std::byte> message(slot.bytes->data(), slot.info->count);
    if (!hold(worker, message)) take_request(worker, message);
    moved = true;
    if (pair.gone) break;
    listen(worker, pair.head);
    pair.head = (pair.head + 1) % kSlots;
  }
  return moved;
}

void Server::take_request(std::size_t worker, std::span<const std::byte> message) {
  const Status status = core_.on_request(static_cast<int>(worker), message);
  if (!status.ok()) {
    links_.log("worker " + std::to_string(worker) + ": " + status.message());
    lose(worker);
  }
  act();
}

// What one store waits for may come through another of the same worker's, so that only requests to
// the store that it runs ahead in wait.
bool Server::hold(std::size_t worker, std::span<const std::byte> message) {
  Pair& pair = pairs_[worker];
  const std::uint16_t store = store_of(message);
  const auto before = pair.held.find(store);
  if (before == pair.held.end() && !core_.is_ahead(static_cast<int>(worker), store)) return false;
  pair.held[store].emplace_back(message.begin(), message.end());
  pair.held_bytes += message.size();
  return true;
}

bool Server::take_held(std::size_t worker) {
  Pair& pair = pairs_[worker];
  bool moved = false;
  for (auto queue = pair.held.begin(); queue != pair.held.end();) {
    while (!queue->second.empty() && !must_wait(worker) &&
           !core_.is_ahead(static_cast<int>(worker), queue->first)) {
      const std::vector<std::byte> message = std::move(queue->second.front());
      queue->second.pop_front();
      pair.held_bytes -= message.size();
      take_request(worker, message);
      moved = true;
      if (pair.gone) return true;
    }
    queue = queue->second.empty() ? pair.held.erase(queue) : std::next(queue);
  }
  return moved;
}

void Server::lose(std::size_t worker) {
  if (std::exchange(pairs_[worker].gone, true)) return;
  --present_;
  pairs_[worker].held.clear();
  core_.on_gone(static_cast<int>(worker));
  act();
}

void Server::receive(Receive& receive) {
  const auto worker = static_cast<std::size_t>(receive.worker);
  std::byte* const into = receive.into.get();
  submit({worker, false, receive.tag, into, receive.bytes, std::move(receive.into),
          std::make_shared<MessageInfo>()},
         {ServerEvent::Kind::kPayload, worker, receive.id, false});
}

void Server::act() {
  Actions actions = core_.take_actions();
  for (Receive& each : actions.receives) receive(each);
  for (Tell& each : actions.tells) tell(each);
  for (Relay& each : actions.relays) relay(std::move(each));
  for (const ClockEnd& each : actions.clocks_ended) servers_->clock(each.clock);
  for (Reply& reply : actions.replies) {
    const auto worker = static_cast<std::size_t>(reply.worker);
    const std::uint64_t number = next_reply_++;
    pairs_[worker].queued.push({reply.priority, number});
    pairs_[worker].owed += reply.bytes;
    replies_.emplace(number, std::move(reply));
  }
  for (std::size_t w = 0; w < pairs_.size(); ++w) send_replies(w);
}

exec::MessageRequest Server::with_server(std::size_t server, bool sends,
                                         std::vector<std::byte>& bytes) const {
  exec::MessageRequest request;
  request.group = links_.peers[server].get();
  request.sends = sends;
  request.peer = 1 - request.group->rank;
  request.tag = kRequestTag;
  request.data = bytes.data();
  request.count = bytes.size();
  request.type = DType::kU8;
  request.segment_bytes = links_.segment_bytes;
  return request;
}

// What they have sent before is there still: small messages wait for their receives.
void Server::listen_to_servers() {
  notes_.resize(links_.peers.size());
  for (std::size_t server = 0; server < notes_.size(); ++server) {
    if (links_.peers[server] == nullptr) continue;
    for (std::size_t i = 0; i < kPeerSlots; ++i) {
      notes_[server].emplace_back(kSumsNoteBytesMax);
      listen_to(server, i);
    }
  }
}

void Server::listen_to(std::size_t server, std::size_t index) {
  const Slot& slot = notes_[server][index];
  exec::Engine::Call call;
  call.message = with_server(server, false, *slot.bytes);
  call.message.info = slot.info;
  call.work = std::make_shared<WorkState>(links_.engine);
  call.work->on_complete(
      [events = events_, server, index, bytes = slot.bytes](const Status& status) {
        events->post({ServerEvent::Kind::kNote, server, index, status.ok()});
      });
  calls_.push_back(std::move(call));
}

void Server::take_note(const ServerEvent& event) {
  const std::size_t server = event.worker;
  if (notes_[server].empty()) return;
  const Slot& slot = notes_[server][event.id];
  Status status(Code::kPeerLost, "gone");
  if (event.ok) {
    status = core_.on_sums(static_cast<int>(server), {slot.bytes->data(), slot.info->count});
    if (!status.ok()) links_.log("server " + std::to_string(server) + ": " + status.message());
  }
  if (status.ok()) {
    listen_to(server, event.id);
  } else {
    notes_[server].clear();
    core_.on_server_gone(static_cast<int>(server));
  }
  act();
}

void Server::tell(Tell& tell) {
  auto bytes = std::make_shared<std::vector<std::byte>>(std::move(tell.bytes));
  exec::Engine::Call call;
  call.message = with_server(static_cast<std::size_t>(tell.server), true, *bytes);
  call.work = std::make_shared<WorkState>(links_.engine);
  call.work->on_complete([bytes](const Status&) {});  // whoever is gone is heard of as such
  calls_.push_back(std::move(call));
}

void Server::relay(Relay relay) {
  const std::uint64_t id = next_relay_++;
  Client::Call call;
  call.clock = relay.clock;
  call.priority = relay.priority;
  auto work = servers_->relay(*relay.key, relay.place.slice, relay.sums, relay.value, call);
  relayed_.emplace(id, Relayed{std::move(relay), work});
  work->on_complete([events = events_, id](const Status& status) {
    events->post({ServerEvent::Kind::kRelayed, 0, id, status.ok()});
  });
}

void Server::take_relayed(std::uint64_t id) {
  const auto at = relayed_.find(id);
  Relayed relayed = std::move(at->second);
  relayed_.erase(at);
  core_.on_relayed(std::move(relayed.relay), relayed.work->status());
  act();
}

void Server::send_replies(std::size_t worker) {
  Pair& pair = pairs_[worker];
  while (!pair.queued.empty() && pair.in_flight < kReplyWindowBytes) {
    const std::uint64_t number = pair.queued.top().number;
    pair.queued.pop();
    const Reply& reply = replies_.at(number);
    pair.in_flight += reply.bytes;
    submit({worker, true, reply.tag, reply.data.get(), reply.bytes, reply.data, nullptr},
           {ServerEvent::Kind::kReply, worker, number, false});
  }
}

}  // namespace syncline::ps
