// Server: ServerCore over an engine's messages. With a client of servers it is a relay for the
// workers of a host: what they push goes on as one sum.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <queue>
#include <vector>

#include "ps/client.h"
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
  // Requests of a worker to stores that it runs ahead in: beyond it all its requests wait.
  static constexpr std::size_t kHeldBytesMax = 4 << 20;

  // Listens at once. `links` outlive it. `servers`: of a relay, which uses its one store; null:
  // this is none.
  explicit Server(const ServerLinks& links, std::shared_ptr<Client> servers = nullptr);

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
    // By store, in their order: those to other stores go on.
    std::map<std::uint16_t, std::deque<std::vector<std::byte>>> held;
    std::size_t held_bytes = 0;
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
  void take_request(std::size_t worker, std::span<const std::byte> message);
  bool hold(std::size_t worker, std::span<const std::byte> message);
  bool take_held(std::size_t worker);
  void lose(std::size_t worker);
  void act();
  void receive(Receive& receive);
  void listen_to_servers();
  void listen_to(std::size_t server, std::size_t index);
  void take_note(const ServerEvent& event);
  void tell(Tell& tell);
  void relay(Relay relay);
  void take_relayed(std::uint64_t id);
  exec::MessageRequest with_server(std::size_t server, bool sends,
                                   std::vector<std::byte>& bytes) const;
  void send_replies(std::size_t worker);

  struct Relayed {
    Relay relay;
    std::shared_ptr<WorkState> work;
  };

  const ServerLinks& links_;
  const std::shared_ptr<Client> servers_;
  ServerCore core_;
  std::shared_ptr<ServerEvents> events_;
  std::vector<Pair> pairs_;
  std::size_t present_ = pairs_.size();
  // By server: its notes, once stores need them. An empty one: it is gone, or this server.
  std::vector<std::vector<Slot>> notes_;
  std::map<std::uint64_t, Reply> replies_;  // that are not sent whole yet
  std::uint64_t next_reply_ = 1;
  std::map<std::uint64_t, Relayed> relayed_;  // that are not answered yet
  std::uint64_t next_relay_ = 1;
  std::vector<exec::Engine::Call> calls_;  // to submit
};

}  // namespace syncline::ps
