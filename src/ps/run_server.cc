#include "ps/run_server.h"

#include <deque>
#include <queue>

#include "base/mutex.h"
#include "ps/server_core.h"

namespace syncline::ps {
namespace {

constexpr std::size_t kSlots = 16;                  // requests of a worker that may be on their way
constexpr std::size_t kExpectedBytesMax = 4 << 20;  // of a worker's payloads at a time
constexpr std::size_t kReplyWindowBytes = 2 << 20;  // to a worker; what is behind goes by priority
constexpr std::size_t kCallsMax = 32;
constexpr Nanos kNeverLate = 0;

struct Event {
  enum class Kind : std::uint8_t { kRequest, kPayload, kReply } kind{};
  std::size_t worker = 0;
  std::uint64_t id = 0;  // slot, payload or reply
  bool ok = false;
};

// Thread-safe: callbacks of the engine post, the server's thread takes.
class Events {
 public:
  explicit Events(std::shared_ptr<exec::Engine> engine) : engine_(std::move(engine)) {}

  void post(const Event& event) {
    std::shared_ptr<WorkState> wake;
    {
      MutexLock lock(mutex_);
      events_.push_back(event);
      wake = std::move(wake_);
    }
    if (wake == nullptr) return;
    std::vector<std::function<void()>> callbacks;  // nobody watches it
    wake->complete({}, callbacks);
  }

  // Blocks, moving bytes, until there are some.
  std::deque<Event> take() {
    for (;;) {
      std::shared_ptr<WorkState> wake;
      {
        MutexLock lock(mutex_);
        if (!events_.empty()) return std::exchange(events_, {});
        wake = wake_ = std::make_shared<WorkState>(engine_);
      }
      (void)engine_->wait(*wake);
    }
  }

 private:
  std::shared_ptr<exec::Engine> engine_;
  Mutex mutex_;
  std::deque<Event> events_ SYNCLINE_GUARDED_BY(mutex_);
  std::shared_ptr<WorkState> wake_ SYNCLINE_GUARDED_BY(mutex_);  // set while take() waits
};

// Confined to the server's thread, but for the events.
class Server {
 public:
  explicit Server(const ServerLinks& links)
      : links_(links),
        core_(static_cast<int>(links.workers.size()), links.server),
        events_(std::make_shared<Events>(links.engine)),
        pairs_(links.workers.size()) {}

  Status run() {
    for (std::size_t w = 0; w < pairs_.size(); ++w) {
      for (std::size_t slot = 0; slot < kSlots; ++slot) post(w, slot);
    }
    submit_calls();
    while (present_ > 0) {
      for (const Event& event : events_->take()) handle(event);
      drain_all();
      submit_calls();
      if (links_.ends_with_stores && core_.is_over() && replies_.empty()) break;
    }
    return {};
  }

 private:
  struct Slot {
    std::vector<std::byte> bytes = std::vector<std::byte>(kRequestBytesMax);
    std::shared_ptr<MessageInfo> info = std::make_shared<MessageInfo>();
    bool done = false;
    bool ok = false;
  };
  struct Queued {
    std::int32_t priority;
    std::uint64_t number;
    bool operator<(const Queued& other) const {
      return priority != other.priority ? priority < other.priority : number > other.number;
    }
  };
  struct Pair {
    std::vector<Slot> slots = std::vector<Slot>(kSlots);
    std::size_t head = 0;
    bool gone = false;
    std::priority_queue<Queued> queued;  // replies
    std::size_t in_flight = 0;           // bytes of replies
  };

  void submit(std::size_t worker, bool sends, std::int32_t tag, void* data, std::size_t bytes,
              std::shared_ptr<MessageInfo> info, Event event) {
    exec::MessageRequest request;
    request.group = links_.workers[worker].get();
    request.sends = sends;
    request.peer = kWorkerSide;  // also of a group of one
    request.tag = tag;
    request.data = data;
    request.count = bytes;
    request.type = DType::kU8;
    request.segment_bytes = links_.segment_bytes;
    request.timeout = kNeverLate;
    request.info = std::move(info);
    event.worker = worker;
    exec::Engine::Call call;
    call.message = std::move(request);
    call.work = std::make_shared<WorkState>(links_.engine);
    call.work->on_complete([events = events_, event](const Status& status) mutable {
      event.ok = status.ok();
      events->post(event);
    });
    calls_.push_back(std::move(call));
    if (calls_.size() >= kCallsMax) submit_calls();
  }

  // Together: each submission is a look at all links.
  void submit_calls() { links_.engine->submit(std::exchange(calls_, {})); }

  void post(std::size_t worker, std::size_t index) {
    Slot& slot = pairs_[worker].slots[index];
    slot.done = false;
    submit(worker, false, kRequestTag, slot.bytes.data(), slot.bytes.size(), slot.info,
           {Event::Kind::kRequest, worker, index, false});
  }

  void handle(const Event& event) {
    Pair& pair = pairs_[event.worker];
    switch (event.kind) {
      case Event::Kind::kRequest: {
        Slot& slot = pair.slots[event.id];
        slot.done = true;
        slot.ok = event.ok;
        if (!event.ok) lose(event.worker);
        return;
      }
      case Event::Kind::kPayload:
        core_.on_payload(event.id, event.ok);
        act();
        return;
      case Event::Kind::kReply: {
        const auto at = replies_.find(event.id);
        pair.in_flight -= at->second.bytes;
        replies_.erase(at);
        send_replies(event.worker);
        return;
      }
    }
  }

  // One worker's request may be what another's waits for.
  void drain_all() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t w = 0; w < pairs_.size(); ++w) moved = drain(w) || moved;
    }
  }

  bool drain(std::size_t worker) {
    Pair& pair = pairs_[worker];
    bool moved = false;
    while (!pair.gone && pair.slots[pair.head].done) {
      const auto number = static_cast<int>(worker);
      if (core_.expected_bytes(number) >= kExpectedBytesMax || core_.is_ahead(number)) break;
      Slot& slot = pair.slots[pair.head];
      const Status status = core_.on_request(number, {slot.bytes.data(), slot.info->count});
      if (!status.ok()) {
        links_.log("worker " + std::to_string(worker) + ": " + status.message());
        lose(worker);
      }
      act();
      moved = true;
      if (pair.gone) break;
      post(worker, pair.head);
      pair.head = (pair.head + 1) % kSlots;
    }
    return moved;
  }

  void lose(std::size_t worker) {
    if (std::exchange(pairs_[worker].gone, true)) return;
    --present_;
    core_.on_gone(static_cast<int>(worker));
    act();
  }

  void act() {
    Actions actions = core_.take_actions();
    for (Receive& receive : actions.receives) {
      submit(static_cast<std::size_t>(receive.worker), false, receive.tag, receive.into.get(),
             receive.bytes, nullptr, {Event::Kind::kPayload, 0, receive.id, false});
    }
    for (Reply& reply : actions.replies) {
      const auto worker = static_cast<std::size_t>(reply.worker);
      const std::uint64_t number = next_reply_++;
      pairs_[worker].queued.push({reply.priority, number});
      replies_.emplace(number, std::move(reply));
    }
    for (std::size_t w = 0; w < pairs_.size(); ++w) send_replies(w);
  }

  void send_replies(std::size_t worker) {
    Pair& pair = pairs_[worker];
    while (!pair.queued.empty() && pair.in_flight < kReplyWindowBytes) {
      const std::uint64_t number = pair.queued.top().number;
      pair.queued.pop();
      const Reply& reply = replies_.at(number);
      pair.in_flight += reply.bytes;
      submit(worker, true, reply.tag, reply.data.get(), reply.bytes, nullptr,
             {Event::Kind::kReply, worker, number, false});
    }
  }

  const ServerLinks& links_;
  ServerCore core_;
  std::shared_ptr<Events> events_;
  std::vector<Pair> pairs_;
  std::size_t present_ = pairs_.size();
  std::map<std::uint64_t, Reply> replies_;  // that are not sent whole yet
  std::uint64_t next_reply_ = 1;
  std::vector<exec::Engine::Call> calls_;  // to submit
};

}  // namespace

Status run_server(const ServerLinks& links) {
  Server server(links);
  return server.run();
}

}  // namespace syncline::ps
