// Client: a worker's side of one key-value store on servers. Cuts tensors into slices, sends them
// by priority, puts answers where they belong.
//
// Each server has a lane: what waits for it, by priority and then by age, and at most a window
// of payload on the way, so that something urgent waits for a few slices only. Lanes keep abreast:
// none sends payload that is far ahead of another's, unless that one is stuck (its server takes
// nothing from a worker that is ahead of others, who may wait for what another server is to get);
// and where servers' links are the bottleneck none is far ahead of its answers (lead.h). What only
// asks overtakes payload. Operations of one slice keep their order: a later one lends the earlier
// ones its priority. What orders clocks (kClock, kFlush, kLeave) goes when all that was called
// before it has gone.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "ps/joined_work.h"
#include "ps/lead.h"
#include "ps/links.h"
#include "ps/request.h"
#include "ps/round_sums.h"

namespace syncline::ps {

// Thread-safe. Calls never block, but those that say so.
class Client : public std::enable_shared_from_this<Client> {
 public:
  Client(WorkerLinks links, std::uint16_t store);

  int servers() const { return static_cast<int>(lanes_.size()); }
  const WorkerLinks& links() const { return links_; }
  std::uint16_t store() const { return store_; }

  // Opens the store on all servers. Blocks.
  Status open(const Rules& rules, Nanos timeout);
  std::shared_ptr<WorkState> begin_open(const Rules& rules, Nanos timeout);
  // Worker 0: makes the key on all servers, with its value if it is dense; publish() follows.
  // Blocks; a refusal is in take_failure().
  Status create(const KeyDescription& key, const void* value, Nanos timeout);
  // The same; `value` is borrowed until the Work has ended.
  Result<std::shared_ptr<WorkState>> begin_create(const KeyDescription& key, const void* value,
                                                  Nanos timeout);
  void publish(const KeyDescription& key);
  // What the directory says of the name, once it is there. Blocks.
  Result<KeyDescription> lookup(const std::string& name, Nanos timeout);
  struct Lookup {
    std::shared_ptr<WorkState> work;
    std::shared_ptr<std::vector<std::byte>> answer;  // for decode_key(), when the Work is done
  };
  Lookup begin_lookup(const std::string& name, Nanos timeout);
  // It holds from `clock` on. Completes when the servers have taken it; a refusal is in
  // take_failure().
  std::shared_ptr<WorkState> begin_optimizer(const optim::Optimizer& optimizer, std::uint64_t clock,
                                             Nanos timeout);
  // The same without an answer.
  void send_optimizer(const optim::Optimizer& optimizer, std::uint64_t clock);
  // Blocks until the servers have agreed.
  Status set_optimizer(const optim::Optimizer& optimizer, std::uint64_t clock, Nanos timeout);

  struct Call {
    std::uint64_t clock = 0;
    int priority = 0;
    double samples = 1;
    Nanos timeout = 0;
  };
  // `data` is borrowed until the Work completes.
  std::shared_ptr<WorkState> push(const KeyDescription& key, const void* data, const Call& call);
  std::shared_ptr<WorkState> pull(const KeyDescription& key, void* data, const Call& call);
  // push(), and pull() behind it into the same memory.
  std::shared_ptr<WorkState> push_pull(const KeyDescription& key, void* data, const Call& call);
  // A relay's: a push for each sum of its workers, then a pull behind the last. The buffers are
  // kept until the Work completes; it waits for other hosts without a limit.
  std::shared_ptr<WorkState> relay(const KeyDescription& key, std::size_t slice,
                                   const std::vector<RoundSum>& sums, const Buffer& value,
                                   const Call& call);
  // Rows of key.count f32 each, `count` of them; ids may repeat. Borrowed until the call returns
  // (ids, gradients) or the Work completes (rows).
  std::shared_ptr<WorkState> push_rows(const KeyDescription& table, const std::int64_t* ids,
                                       const float* gradients, std::size_t count, const Call& call);
  std::shared_ptr<WorkState> pull_rows(const KeyDescription& table, const std::int64_t* ids,
                                       float* rows, std::size_t count, const Call& call);

  // All that a server knows of a slice, or of its rows of a table from the first-th on, as
  // slice_state.h has it: once a pull of this clock would be answered.
  struct State {
    std::shared_ptr<WorkState> work;
    std::shared_ptr<std::vector<std::byte>> bytes;  // there when the Work is done
  };
  State read_state(const KeyDescription& key, std::size_t server, std::size_t slice,
                   std::uint64_t first_row, const Call& call);
  // Worker 0: a key without a value on all servers; restore() gives it one, publish() ends that.
  // kUnsupported: more slices than a request describes.
  Status announce(const KeyDescription& key);
  // Completes when the state has left; a refusal is in take_failure().
  std::shared_ptr<WorkState> restore(const KeyDescription& key, std::size_t server,
                                     std::size_t slice,
                                     std::shared_ptr<std::vector<std::byte>> state,
                                     const Call& call);

  // This worker has ended all clocks below `clock`.
  void clock(std::uint64_t clock);
  // Completes when the servers have taken all that was called before.
  std::shared_ptr<WorkState> flush(Nanos timeout);
  void leave();
  // Of each server. Blocks.
  Result<std::vector<ServerStats>> stats(Nanos timeout);

  // The first failure that nobody has heard of; forgets it.
  Status take_failure();

 private:
  struct Item {
    Request request;
    std::vector<std::byte> bytes;   // room for the header, then the inline part
    const void* payload = nullptr;  // separate; borrowed, or held by `keep`
    std::size_t payload_bytes = 0;
    std::shared_ptr<void> keep;  // until the payload has left
    void* answer = nullptr;      // where to
    // Made as long as what came; may be null.
    std::shared_ptr<std::vector<std::byte>> answer_vector;
    std::size_t answer_bytes = 0;
    bool answer_exact = true;                  // else any length but 0, which is a refusal
    std::array<std::byte, 16> small_answer{};  // for requests whose answer says nothing more
    Nanos timeout = 0;
    // A part of each; may be null.
    std::shared_ptr<JoinedWork> sent;      // all of it has left
    std::shared_ptr<JoinedWork> answered;  // or refused

    std::int32_t answer_tag() const { return request.tag + (request.answers ? 1 : 0); }
  };
  // What asks costs next to nothing and starts an answer on its way back: it goes right behind what
  // is queued for its slice, or at once.
  struct Order {
    int priority;
    std::uint64_t place;   // the number of whom it follows
    std::uint64_t number;  // in the order of calls
    bool operator<(const Order& other) const {
      if (priority != other.priority) return priority > other.priority;
      return place != other.place ? place < other.place : number < other.number;
    }
  };
  struct Lane {
    std::map<Order, std::shared_ptr<Item>> queue;
    std::map<std::uint64_t, std::shared_ptr<Item>> held;  // by number: wait for all before them
    std::set<std::uint64_t> numbers;                      // in `queue`
    // What is in `queue`, by key and slice, in the order of calls.
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Order>> of_slice;
    std::size_t in_flight = 0;
    std::size_t payload_queued = 0;  // items of `queue`
    std::uint64_t handed = 0;        // payload bytes given to the engine, to compare lanes by
    Nanos moved_at = 0;              // a payload left, or there was something to send again
    Lead lead;
    bool submitting = false;  // one thread submits at a time, so that order is kept
    bool listening = false;

    static constexpr Nanos kStuck = 200 * kMillisecond;
    bool has_payload() const { return in_flight + payload_queued > 0; }
    bool is_stuck(Nanos now) const { return has_payload() && now - moved_at >= kStuck; }
  };

  std::shared_ptr<JoinedWork> join(OperationName operation, std::size_t parts);
  void enqueue(std::size_t server, std::shared_ptr<Item> item);
  Order order_of(Lane& lane, const Item& item, std::uint64_t number) SYNCLINE_REQUIRES(mutex_);
  static void forget(Lane& lane, const Order& order, const Item& item);
  bool may_go_at_once(const Lane& lane, const Item& item) const SYNCLINE_REQUIRES(mutex_);
  void note_handed(Lane& lane, const Item& item) SYNCLINE_REQUIRES(mutex_);
  void pump(std::size_t server);
  std::shared_ptr<Item> next_item(Lane& lane) SYNCLINE_REQUIRES(mutex_);
  bool may_send_payload(const Lane& lane, const Item& item) const SYNCLINE_REQUIRES(mutex_);
  void note_answered(std::size_t server, const Item& item);
  void lose_patience(Nanos now);
  std::uint64_t least_sent(const Lane& but, std::uint64_t none) const SYNCLINE_REQUIRES(mutex_);
  using Calls = std::vector<exec::Engine::Call>;
  void send(std::size_t server, const std::shared_ptr<Item>& item);
  void expect_answer(std::size_t server, const std::shared_ptr<Item>& item, Calls& calls);
  void send_head(std::size_t server, const std::shared_ptr<Item>& item, Calls& calls);
  void send_payload(std::size_t server, const std::shared_ptr<Item>& item, Calls& calls);
  void add(exec::MessageRequest message, WorkState::Callback on_complete, Calls& calls) const;
  // For Item::bytes, used again while they are warm.
  std::vector<std::byte> take_bytes();
  void give_bytes(std::vector<std::byte> bytes);
  exec::MessageRequest message(std::size_t server, bool sends, std::int32_t tag, void* data,
                               std::size_t bytes) const;
  void listen_for_errors(std::size_t server);
  void note_error(const ErrorNote& note);
  void end_refused(std::size_t server, const Status& why);
  void take_late_answer(std::size_t server, const std::shared_ptr<Item>& item);
  void withdraw(std::size_t server, const Item& item);
  void finish_answer(std::size_t server, const std::shared_ptr<Item>& item,
                     const std::shared_ptr<MessageInfo>& info, const Status& status);
  using Items = std::vector<std::pair<std::size_t, std::shared_ptr<Item>>>;  // by server
  void add_news(RequestKind kind, const KeyDescription& table, const Call& call, Items& items);
  // `inlined`: what follows the header.
  std::shared_ptr<Item> make_item(RequestKind kind, const Call& call,
                                  std::span<const std::byte> inlined = {});
  std::shared_ptr<Item> push_item(const KeyDescription& key, std::size_t slice, const void* data,
                                  const Call& call);
  // The same of the slice's own memory, in this type.
  std::shared_ptr<Item> slice_push_item(const KeyDescription& key, std::size_t slice,
                                        const std::byte* from, DType type, const Call& call);
  std::shared_ptr<Item> slice_item(RequestKind kind, const KeyDescription& key, std::size_t slice,
                                   const Call& call, std::span<const std::byte> inlined = {});
  std::shared_ptr<WorkState> ask_all(RequestKind kind, const std::vector<std::byte>& body,
                                     const Call& call, const char* operation);
  Status wait(const std::shared_ptr<WorkState>& work);

  const WorkerLinks links_;
  const std::uint16_t store_;
  const bool keeps_lead_;          // the lanes' leads count
  std::atomic<bool> bulk_{false};  // what open() said
  Mutex mutex_;
  std::vector<Lane> lanes_;                      // sizes fixed; contents guarded by mutex_
  static constexpr std::size_t kSpareMax = 128;  // of kRequestBytesMax at most
  std::vector<std::vector<std::byte>> spare_bytes_ SYNCLINE_GUARDED_BY(mutex_);
  std::int32_t next_tag_ SYNCLINE_GUARDED_BY(mutex_);
  std::uint64_t next_number_ SYNCLINE_GUARDED_BY(mutex_) = 1;
  std::set<std::int32_t> awaited_ SYNCLINE_GUARDED_BY(mutex_);  // tags of answers
  std::map<std::int32_t, Status> refusals_ SYNCLINE_GUARDED_BY(mutex_);
  struct Refused {
    std::size_t server;
    std::shared_ptr<JoinedWork> work;
  };
  // By tag; the notes that say why are still on their way.
  std::map<std::int32_t, Refused> refused_ SYNCLINE_GUARDED_BY(mutex_);
  Status failure_ SYNCLINE_GUARDED_BY(mutex_);
};

}  // namespace syncline::ps
