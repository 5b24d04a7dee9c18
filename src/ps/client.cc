#include "ps/client.h"

#include <algorithm>
#include <climits>
#include <optional>

#include "base/planted.h"

namespace syncline::ps {
namespace {

constexpr std::uint64_t kAbreastBytes = 1 << 16;

bool is_ordered(RequestKind kind) {
  return kind == RequestKind::kClock || kind == RequestKind::kFlush ||
         kind == RequestKind::kLeave || kind == RequestKind::kOptimizer ||
         kind == RequestKind::kPublish;
}

}  // namespace

Client::Client(WorkerLinks links, std::uint16_t store)
    : links_(std::move(links)),
      store_(store),
      keeps_lead_(links_.servers_are_narrow()),
      lanes_(links_.servers.size()),
      next_tag_(first_reply_tag(store)) {
  for (Lane& lane : lanes_) lane.lead = Lead(links_.lead_bytes / lanes_.size());
}

exec::MessageRequest Client::message(std::size_t server, bool sends, std::int32_t tag, void* data,
                                     std::size_t bytes) const {
  exec::MessageRequest request;
  request.group = links_.servers[server].get();
  request.sends = sends;
  request.peer = request.group->world_ranks.size() == 1 ? 0 : kServerSide;
  request.tag = tag;
  request.data = data;
  request.count = bytes;
  request.type = DType::kU8;
  request.segment_bytes = links_.segment_bytes;
  return request;
}

std::shared_ptr<JoinedWork> Client::join(OperationName operation, std::size_t parts) {
  auto joined = std::make_shared<JoinedWork>(links_.engine, std::move(operation), parts);
  joined->set_on_lost([self = weak_from_this()](const Status& status) {
    const auto client = self.lock();
    if (client == nullptr) return;
    MutexLock lock(client->mutex_);
    if (client->failure_.ok()) client->failure_ = status;
  });
  return joined;
}

std::shared_ptr<Client::Item> Client::make_item(RequestKind kind, const Call& call,
                                                std::span<const std::byte> inlined) {
  auto item = std::make_shared<Item>();
  item->bytes = take_bytes();
  item->bytes.reserve(kRequestHeaderBytes + inlined.size());
  item->bytes.resize(kRequestHeaderBytes);
  item->bytes.insert(item->bytes.end(), inlined.begin(), inlined.end());
  item->request.inlined = static_cast<std::uint32_t>(inlined.size());
  item->request.kind = kind;
  item->request.store = store_;
  item->request.clock = call.clock;
  item->request.priority = call.priority;
  item->request.samples = call.samples;
  item->timeout = call.timeout > 0 ? call.timeout : links_.timeout;
  return item;
}

void Client::enqueue(std::size_t server, std::shared_ptr<Item> item) {
  bool listens = false;
  bool goes = false;
  {
    MutexLock lock(mutex_);
    Lane& lane = lanes_[server];
    listens = !std::exchange(lane.listening, true);
    item->request.tag = next_tag_;
    next_tag_ += 2;  // the answer of a push has its own
    if (next_tag_ >= last_reply_tag(store_)) next_tag_ = first_reply_tag(store_);
    if (item->answer_bytes > 0) awaited_.insert(item->answer_tag());
    const std::uint64_t number = next_number_++;
    if (is_ordered(item->request.kind)) {
      lane.held.emplace(number, std::move(item));
    } else {
      if (item->payload_bytes > 0 && lane.payload_queued++ + lane.in_flight == 0) {
        // A lane that was idle is not behind for that.
        lane.handed = std::max(lane.handed, least_sent(lane, lane.handed));
        lane.moved_at = links_.engine->now();
      }
      goes = may_go_at_once(lane, *item);
      if (goes) {
        note_handed(lane, *item);
        lane.submitting = true;
      } else {
        const Order order = order_of(lane, *item, number);
        lane.numbers.insert(number);
        lane.queue.emplace(order, std::move(item));
      }
    }
  }
  if (listens) listen_for_errors(server);
  if (goes) {
    send(server, item);
    MutexLock lock(mutex_);
    lanes_[server].submitting = false;
  }
  pump(server);
}

// It would be queued and be the next.
bool Client::may_go_at_once(const Lane& lane, const Item& item) const {
  if (lane.submitting || !lane.queue.empty() || !lane.held.empty()) return false;
  return item.payload_bytes == 0 || may_send_payload(lane, item);
}

void Client::note_handed(Lane& lane, const Item& item) {
  lane.in_flight += item.payload_bytes;
  lane.handed += item.payload_bytes;
  if (item.payload_bytes > 0) --lane.payload_queued;
  if (keeps_lead_ && item.request.answers) {
    lane.lead.send(item.payload_bytes, links_.engine->now());
  }
}

// Of the lanes that have something to send and do, `but` left out: the least that one has sent.
std::uint64_t Client::least_sent(const Lane& but, std::uint64_t none) const {
  std::optional<std::uint64_t> least;
  const Nanos now = links_.engine->now();
  for (const Lane& other : lanes_) {
    if (&other == &but || !other.has_payload() || other.is_stuck(now)) continue;
    const std::uint64_t sent = other.handed - other.in_flight;
    least = std::min(least.value_or(sent), sent);
  }
  return least.value_or(none);
}

// What is queued for the same slice goes no later than this.
Client::Order Client::order_of(Lane& lane, const Item& item, std::uint64_t number) {
  const int priority = item.request.priority;
  const bool asks = item.answer_bytes > 0 && !item.request.answers;
  Order order = asks ? Order{INT_MAX, 0, number} : Order{priority, number, number};
  std::vector<Order>& same = lane.of_slice[{item.request.key, item.request.slice}];
  for (Order& other : same) {
    if (other.priority < priority) {
      auto node = lane.queue.extract(other);
      other.priority = priority;
      node.mapped()->request.priority = priority;
      node.key() = other;
      lane.queue.insert(std::move(node));
    }
    if (asks) order = {other.priority, other.place, number};
  }
  same.push_back(order);
  return order;
}

void Client::forget(Lane& lane, const Order& order, const Item& item) {
  lane.numbers.erase(order.number);
  const auto same = lane.of_slice.find({item.request.key, item.request.slice});
  std::erase_if(same->second, [&](const Order& other) { return other.number == order.number; });
  if (same->second.empty()) lane.of_slice.erase(same);
}

std::shared_ptr<Client::Item> Client::next_item(Lane& lane) {
  const auto held = lane.held.begin();
  if (held != lane.held.end() && (lane.numbers.empty() || held->first < *lane.numbers.begin() ||
                                  SYNCLINE_PLANTED(clock_overtakes))) {
    auto item = std::move(held->second);
    lane.held.erase(held);
    return item;
  }
  auto first = lane.queue.begin();
  if (held != lane.held.end() && held->second->request.kind == RequestKind::kOptimizer) {
    // What was called after it must not overtake it.
    while (first != lane.queue.end() && first->first.number > held->first) ++first;
  }
  if (first == lane.queue.end()) return nullptr;
  if (first->second->payload_bytes > 0 && !may_send_payload(lane, *first->second)) return nullptr;
  auto item = std::move(first->second);
  forget(lane, first->first, *item);
  lane.queue.erase(first);
  note_handed(lane, *item);
  return item;
}

// Servers add up what all workers send them: a connection that runs ahead of the others takes the
// wire from what somebody waits for. So lanes that have something to send keep abreast.
bool Client::may_send_payload(const Lane& lane, const Item& item) const {
  if (keeps_lead_ && item.request.answers && !lane.lead.admits(item.payload_bytes)) return false;
  if (lane.in_flight >= links_.window_bytes / lanes_.size()) return false;
  const std::uint64_t least = std::min(least_sent(lane, lane.handed), lane.handed - lane.in_flight);
  return lane.handed - least <= kAbreastBytes;
}

void Client::note_answered(std::size_t server, const Item& item) {
  {
    MutexLock lock(mutex_);
    lanes_[server].lead.answer(item.payload_bytes, links_.engine->now());
  }
  pump(server);
}

void Client::lose_patience(Nanos now) {
  std::vector<std::size_t> waiting;
  {
    MutexLock lock(mutex_);
    const bool stuck = std::any_of(lanes_.begin(), lanes_.end(),
                                   [now](const Lane& lane) { return lane.is_stuck(now); });
    for (std::size_t server = 0; server < lanes_.size(); ++server) {
      Lane& lane = lanes_[server];
      if (lane.queue.empty() || SYNCLINE_PLANTED(endless_patience)) continue;
      if (lane.lead.lose_patience(now) || stuck) waiting.push_back(server);
    }
  }
  for (const std::size_t server : waiting) pump(server);
}

void Client::pump(std::size_t server) {
  for (;;) {
    std::shared_ptr<Item> item;
    {
      MutexLock lock(mutex_);
      Lane& lane = lanes_[server];
      if (lane.submitting) return;  // that thread looks again
      item = next_item(lane);
      if (item == nullptr) return;
      lane.submitting = true;
    }
    send(server, item);
    MutexLock lock(mutex_);
    lanes_[server].submitting = false;
  }
}

void Client::send(std::size_t server, const std::shared_ptr<Item>& item) {
  Calls calls;  // together: each submission is a look at all links
  calls.reserve(3);
  if (item->answer_bytes > 0) expect_answer(server, item, calls);
  send_head(server, item, calls);
  if (item->payload_bytes > 0) send_payload(server, item, calls);
  links_.engine->submit(calls);
}

void Client::add(exec::MessageRequest message, WorkState::Callback on_complete,
                 Calls& calls) const {
  exec::Engine::Call& call = calls.emplace_back();
  call.message = std::move(message);
  call.work = std::make_shared<WorkState>(links_.engine);
  call.work->on_complete(std::move(on_complete));
}

void Client::send_head(std::size_t server, const std::shared_ptr<Item>& item, Calls& calls) {
  auto& bytes = item->bytes;
  encode(item->request,
         std::span<std::byte, kRequestHeaderBytes>(bytes.data(), kRequestHeaderBytes));
  auto head = message(server, true, kRequestTag, bytes.data(), bytes.size());
  const bool ends_with_head = item->sent != nullptr && item->payload_bytes == 0;
  // What nobody waits for here, others do: it may be late, but not lost.
  if (ends_with_head) head.timeout = links_.timeout;
  add(
      std::move(head),
      [self = shared_from_this(), item, ends_with_head](const Status& status) {
        self->give_bytes(std::move(item->bytes));
        if (ends_with_head) item->sent->end_part(status);
      },
      calls);
}

void Client::send_payload(std::size_t server, const std::shared_ptr<Item>& item, Calls& calls) {
  auto payload = message(server, true, item->request.tag, const_cast<void*>(item->payload),
                         item->payload_bytes);
  payload.timeout = links_.timeout;
  payload.at_once = true;  // within the window
  add(
      std::move(payload),
      [self = shared_from_this(), server, item](const Status& status) {
        {
          MutexLock lock(self->mutex_);
          self->lanes_[server].in_flight -= item->payload_bytes;
          self->lanes_[server].moved_at = self->links_.engine->now();
        }
        if (status.code() == Code::kTimeout) self->withdraw(server, *item);
        item->keep = nullptr;
        if (item->sent != nullptr) item->sent->end_part(status);
        for (std::size_t other = 0; other < self->lanes_.size(); ++other) self->pump(other);
      },
      calls);
}

std::vector<std::byte> Client::take_bytes() {
  MutexLock lock(mutex_);
  if (spare_bytes_.empty()) return {};
  std::vector<std::byte> bytes = std::move(spare_bytes_.back());
  spare_bytes_.pop_back();
  return bytes;
}

void Client::give_bytes(std::vector<std::byte> bytes) {
  MutexLock lock(mutex_);
  if (spare_bytes_.size() >= kSpareMax) return;
  bytes.clear();
  spare_bytes_.push_back(std::move(bytes));
}

// The server has the request, or will: it is not to wait for the payload for ever.
void Client::withdraw(std::size_t server, const Item& item) {
  links_.engine->submit(message(server, true, item.request.tag, nullptr, 0));
}

void Client::expect_answer(std::size_t server, const std::shared_ptr<Item>& item, Calls& calls) {
  auto info = std::make_shared<MessageInfo>();
  auto answer = message(server, false, item->answer_tag(), item->answer, item->answer_bytes);
  answer.info = info;
  answer.timeout = item->timeout;
  add(
      std::move(answer),
      [self = shared_from_this(), server, item, info](const Status& status) {
        self->finish_answer(server, item, info, status);
      },
      calls);
}

void Client::finish_answer(std::size_t server, const std::shared_ptr<Item>& item,
                           const std::shared_ptr<MessageInfo>& info, const Status& status) {
  Status outcome = status;
  if (status.code() == Code::kTimeout) {
    outcome = Status(Code::kTimeout, "server " + std::to_string(server) +
                                         " has not answered after " + seconds_text(item->timeout) +
                                         "; a worker may be behind, or the key not pushed by all")
                  .caused_by(status);
  }
  if (status.code() == Code::kTimeout) take_late_answer(server, item);
  if (keeps_lead_ && item->request.answers) note_answered(server, *item);
  {
    MutexLock lock(mutex_);
    awaited_.erase(item->answer_tag());
    const auto refusal = refusals_.find(item->answer_tag());
    if (refusal != refusals_.end()) {
      outcome = refusal->second;
      refusals_.erase(refusal);
    } else if (outcome.ok() && info->count == 0) {
      refused_.emplace(item->answer_tag(), Refused{server, item->answered});
      return;
    } else if (outcome.ok() && item->answer_exact && info->count != item->answer_bytes) {
      outcome = Status(Code::kCorrupt, "server " + std::to_string(server) + " answered " +
                                           std::to_string(info->count) + " bytes instead of " +
                                           std::to_string(item->answer_bytes));
    }
  }
  if (item->answer_vector != nullptr && outcome.ok()) item->answer_vector->resize(info->count);
  if (item->answered != nullptr) item->answered->end_part(outcome);
}

// An answer that nobody takes would fill the server's window to this worker.
void Client::take_late_answer(std::size_t server, const std::shared_ptr<Item>& item) {
  auto nowhere = std::make_shared<std::vector<std::byte>>(item->answer_bytes);
  links_.engine
      ->submit(message(server, false, item->answer_tag(), nowhere->data(), nowhere->size()))
      ->on_complete([nowhere](const Status&) {});
}

void Client::listen_for_errors(std::size_t server) {
  auto bytes = std::make_shared<std::vector<std::byte>>(kErrorNoteBytes);
  auto info = std::make_shared<MessageInfo>();
  auto note = message(server, false, error_tag(store_), bytes->data(), bytes->size());
  note.info = info;
  links_.engine->submit(std::move(note))
      ->on_complete([self = weak_from_this(), bytes, info, server](const Status& status) {
        const auto client = self.lock();
        if (client == nullptr) return;
        if (!status.ok()) return client->end_refused(server, status);
        const auto error = decode_error({bytes->data(), info->count});
        if (error.ok()) client->note_error(error.value());
        client->listen_for_errors(server);
      });
}

void Client::note_error(const ErrorNote& note) {
  const Status status(note.code, note.text);
  std::shared_ptr<JoinedWork> refused;
  {
    MutexLock lock(mutex_);
    const auto waits = refused_.find(note.tag);
    if (waits != refused_.end()) {
      refused = std::move(waits->second.work);
      refused_.erase(waits);
    } else if (awaited_.count(note.tag) > 0) {
      refusals_[note.tag] = status;
    } else if (failure_.ok()) {
      failure_ = status;
    }
  }
  if (refused != nullptr) refused->end_part(status);
}

// No note comes any more.
void Client::end_refused(std::size_t server, const Status& why) {
  std::vector<std::shared_ptr<JoinedWork>> works;
  {
    MutexLock lock(mutex_);
    std::erase_if(refused_, [&](const auto& each) {
      if (each.second.server != server) return false;
      works.push_back(each.second.work);
      return true;
    });
  }
  for (const auto& work : works) work->end_part(why);
}

Status Client::take_failure() {
  MutexLock lock(mutex_);
  return std::exchange(failure_, Status());
}

Status Client::wait(const std::shared_ptr<WorkState>& work) { return links_.engine->wait(*work); }

std::shared_ptr<WorkState> Client::ask_all(RequestKind kind, const std::vector<std::byte>& body,
                                           const Call& call, const char* operation) {
  auto joined = join({operation}, lanes_.size());
  auto work = joined->work();
  for (std::size_t server = 0; server < lanes_.size(); ++server) {
    auto item = make_item(kind, call, body);
    item->answer = item->small_answer.data();
    item->answer_bytes = item->small_answer.size();
    item->answer_exact = false;
    item->answered = joined;
    enqueue(server, std::move(item));
  }
  return work;
}

std::shared_ptr<WorkState> Client::begin_open(const Rules& rules, Nanos timeout) {
  Call call;
  call.timeout = timeout;
  bulk_ = rules.is_bulk();
  links_.engine->add_ticker([self = weak_from_this()](Nanos now) {
    const auto client = self.lock();
    if (client != nullptr) client->lose_patience(now);
    return client != nullptr;
  });
  return ask_all(RequestKind::kOpen, encode(rules), call, "kvstore");
}

Status Client::open(const Rules& rules, Nanos timeout) { return wait(begin_open(rules, timeout)); }

std::shared_ptr<WorkState> Client::flush(Nanos timeout) {
  Call call;
  call.timeout = timeout;
  return ask_all(RequestKind::kFlush, {}, call, "flush");
}

void Client::send_optimizer(const optim::Optimizer& optimizer, std::uint64_t clock) {
  Call call;
  call.clock = clock;
  for (std::size_t server = 0; server < lanes_.size(); ++server) {
    auto item = make_item(RequestKind::kOptimizer, call, encode(optimizer));
    enqueue(server, std::move(item));
  }
}

std::shared_ptr<WorkState> Client::begin_optimizer(const optim::Optimizer& optimizer,
                                                   std::uint64_t clock, Nanos timeout) {
  send_optimizer(optimizer, clock);
  return flush(timeout);
}

Status Client::set_optimizer(const optim::Optimizer& optimizer, std::uint64_t clock,
                             Nanos timeout) {
  const Status taken = wait(begin_optimizer(optimizer, clock, timeout));
  const Status refused = take_failure();
  return (refused.ok() ? taken : refused).with_operation("set_optimizer");
}

Result<std::shared_ptr<WorkState>> Client::begin_create(const KeyDescription& key,
                                                        const void* value, Nanos timeout) {
  const Status announced = announce(key);
  if (!announced.ok()) return announced;
  const std::size_t width = size_of(key.dtype);
  for (std::size_t i = 0; i < key.slices.size(); ++i) {
    const PlacedSlice& slice = key.slices[i];
    auto item = slice_item(RequestKind::kAssign, key, i, {});
    item->request.separate = true;
    item->payload = static_cast<const std::byte*>(value) + slice.begin * width;
    item->payload_bytes = slice.count * width;
    enqueue(static_cast<std::size_t>(slice.server), std::move(item));
  }
  return flush(timeout);
}

void Client::publish(const KeyDescription& key) {
  const std::vector<std::byte> body = encode(key);
  auto item = make_item(RequestKind::kPublish, {}, body);
  enqueue(0, std::move(item));
}

Status Client::create(const KeyDescription& key, const void* value, Nanos timeout) {
  const auto begun = begin_create(key, value, timeout);
  if (!begun.ok()) return begun.status();
  return wait(begun.value());
}

Client::Lookup Client::begin_lookup(const std::string& name, Nanos timeout) {
  Call call;
  call.timeout = timeout;
  auto joined = join({"lookup of", name}, 1);
  const auto work = joined->work();
  auto item =
      make_item(RequestKind::kLookup, call, std::as_bytes(std::span(name.data(), name.size())));
  auto answer = std::make_shared<std::vector<std::byte>>(kInlineMax);
  item->answer = answer->data();
  item->answer_bytes = answer->size();
  item->answer_exact = false;
  item->answer_vector = answer;
  item->answered = joined;
  enqueue(0, std::move(item));
  return {work, answer};
}

Result<KeyDescription> Client::lookup(const std::string& name, Nanos timeout) {
  const Lookup begun = begin_lookup(name, timeout);
  const Status status = wait(begun.work);
  if (status.code() == Code::kTimeout) {
    return Status(Code::kTimeout, "key '" + name +
                                      "' not initialised: worker 0 has not called init " +
                                      "for it within " + seconds_text(timeout));
  }
  if (!status.ok()) return status;
  return decode_key(*begun.answer);
}

void Client::clock(std::uint64_t clock) {
  Call call;
  call.clock = clock;
  for (std::size_t server = 0; server < lanes_.size(); ++server) {
    enqueue(server, make_item(RequestKind::kClock, call));
  }
}

void Client::leave() {
  for (std::size_t server = 0; server < lanes_.size(); ++server) {
    enqueue(server, make_item(RequestKind::kLeave, {}));
  }
}

Result<std::vector<ServerStats>> Client::stats(Nanos timeout) {
  Call call;
  call.timeout = timeout;
  auto joined = join({"stats"}, lanes_.size());
  const auto work = joined->work();
  std::vector<std::vector<std::byte>> answers(lanes_.size(),
                                              std::vector<std::byte>(kServerStatsBytes));
  for (std::size_t server = 0; server < lanes_.size(); ++server) {
    auto item = make_item(RequestKind::kStats, call);
    item->answer = answers[server].data();
    item->answer_bytes = answers[server].size();
    item->answered = joined;
    enqueue(server, std::move(item));
  }
  const Status status = wait(work);
  if (!status.ok()) return status;
  std::vector<ServerStats> all;
  for (const auto& bytes : answers) {
    auto one = decode_stats(bytes);
    if (!one.ok()) return one.status();
    all.push_back(one.value());
  }
  return all;
}

}  // namespace syncline::ps
