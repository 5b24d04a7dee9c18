// Server: ServerCore over an engine's messages.
#pragma once

#include <map>
#include <memory>
#include <queue>
#include <vector>

#include "ps/links.h"
#include "ps/server_core.h"
#include "ps/server_events.h"

namespace syncline::ps {

// Confined to the server's thread, but for its events. What the engine reads and writes belongs to
// its callbacks: it outlives this object and a worker that is given up.
class Server {
 public:
  static constexpr std::size_t kPeerSlots = 4;  // notes of another server, likewise
  static constexpr std::size_t kSlots = 16;     // requests of a worker that may be on their way
  static constexpr std::size_t kExpectedBytesMax = 4 << 20;  // of a worker's payloads at a time
  static constexpr std::size_t kReplyWindowBytes = 2 << 20;  // to a worker; behind it by priority
  // Answers of its own memory that a worker has not taken: beyond it its requests wait.
  static constexpr std::size_t kOwedBytesMax = 16 << 20;

  // Listens at once. `links` outlive it.
  explicit Server(const ServerLinks& links);

  // Handles what has happened; false: nothing had. Never blocks.
  bool step();
  // Blocks, moving bytes, until something has.
  void wait() { events_->wait(); }
  // Every worker is gone, or where the links say so has left every store.
  bool is_over() const;

  const ServerCore& core() const { return core_; }

 private:
  struct Slot {
    explicit Slot(std::size_t room = kRequestBytesMax)
        : bytes(std::make_shared<std::vector<std::byte>>(room)) {}
    std::shared_ptr<std::vector<std::byte>> bytes;
    std::shared_ptr<MessageInfo> info = std::make_shared<MessageInfo>();
    bool done = false;
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
    std::size_t owed = 0;                // bytes of replies, queued ones too
  };
  // A message of this worker's pair. `keep` owns the memory, `info` is null for sends.
  struct Message {
    std::size_t worker;
    bool sends;
    std::int32_t tag;
    void* data;
    std::size_t bytes;
    std::shared_ptr<void> keep;
    std::shared_ptr<MessageInfo> info;
  };

  void submit(Message message, ServerEvent event);
  // Together: each submission is a look at all links.
  void submit_calls();
  void listen(std::size_t worker, std::size_t index);
  void handle(const ServerEvent& event);
  void drain_all();
  bool drain(std::size_t worker);
  bool must_wait(std::size_t worker) const;
  void lose(std::size_t worker);
  void act();
  void receive(Receive& receive);
  void listen_to_servers();
  void listen_to(std::size_t server, std::size_t index);
  void take_note(const ServerEvent& event);
  void tell(Tell& tell);
  exec::MessageRequest with_server(std::size_t server, bool sends,
                                   std::vector<std::byte>& bytes) const;
  void send_replies(std::size_t worker);

  const ServerLinks& links_;
  ServerCore core_;
  std::shared_ptr<ServerEvents> events_;
  std::vector<Pair> pairs_;
  std::size_t present_ = pairs_.size();
  // By server: its notes, once stores need them. An empty one: it is gone, or this server.
  std::vector<std::vector<Slot>> notes_;
  std::map<std::uint64_t, Reply> replies_;  // that are not sent whole yet
  std::uint64_t next_reply_ = 1;
  std::vector<exec::Engine::Call> calls_;  // to submit
};

}  // namespace syncline::ps
