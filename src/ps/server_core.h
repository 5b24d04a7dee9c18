// ServerCore: a server of key-value stores without threads, sockets or clocks: requests in, actions
// out. docs/formats/store.md has the protocol.
//
// A worker's requests come in its order. A push whose payload travels apart is taken in two steps:
// on_request() asks for the payload (Receive), on_payload() says that it is there. A pull waits in
// its part until the rules admit it (round_gate.h).
//
// A worker: here -> left (kLeave) | gone (its pair broke). Either way it holds nobody back any
// more. A store comes to be with its first kOpen and stays until every worker has left.
//
// A relay is one too, for the workers of its host: server_core_relay.cc.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ps/dense_slice.h"
#include "ps/norm_exchange.h"
#include "ps/relay_slice.h"
#include "ps/table_part.h"

namespace syncline::ps {

// Receive the payload of a push, then call on_payload(id).
struct Receive {
  std::uint64_t id = 0;
  int worker = 0;
  std::int32_t tag = 0;
  Buffer into;
  std::size_t bytes = 0;
};

// Send to the worker under this tag; the buffer stays as it is until it is let go.
struct Reply {
  int worker = 0;
  std::int32_t tag = 0;
  std::int32_t priority = 0;
  Buffer data;
  std::size_t bytes = 0;
};

// Tell another server: it calls on_sums() with it.
struct Tell {
  int server = 0;
  std::vector<std::byte> bytes;
};

// Of a relay (relay_slice.h): give the sums to the slice's server and ask for the slice as it is
// with them, or without sums as `clock` begins; then call on_relayed() with it.
struct Relay {
  std::uint16_t store = 0;
  PartPlace place;
  const KeyDescription* key = nullptr;  // valid until on_relayed()
  std::uint64_t clock = 0;
  int priority = 0;
  std::vector<RoundSum> sums;
  Buffer value;  // where the answer goes
};

// Tell the servers: all clocks below have ended.
struct ClockEnd {
  std::uint16_t store = 0;
  std::uint64_t clock = 0;
};

struct Actions {
  std::vector<Receive> receives;
  std::vector<Reply> replies;
  std::vector<Tell> tells;
  std::vector<Relay> relays;  // before the ends of clocks
  std::vector<ClockEnd> clocks_ended;
};

// What a server is to its workers.
enum class ServerRole : std::uint8_t {
  kKeeper,  // has the values
  kRelay,   // sums for servers that have them
};

// Confined.
class ServerCore {
 public:
  // Of one worker's requests that wait for others: beyond it they are refused.
  static constexpr std::size_t kWaitingBytesMax = 64 << 20;
  // How far a push may be ahead of its worker's clock: an urgent one overtakes the news of it.
  static constexpr std::uint64_t kClocksAheadMax = 1 << 16;

  ServerCore(int workers, int server, int servers = 1, ServerRole role = ServerRole::kKeeper)
      : workers_(workers),
        server_(server),
        servers_(servers),
        relays_(role == ServerRole::kRelay),
        here_(workers, true),
        waiting_bytes_(workers) {}

  // A whole request message. Not ok: the worker breaks the rules, call on_gone().
  Status on_request(int worker, std::span<const std::byte> message);
  // The payload of Receive `id` is there, or never will be.
  void on_payload(std::uint64_t id, bool arrived);
  void on_gone(int worker);
  // What another server tells (norm_exchange.h). Not ok: it breaks the rules, call
  // on_server_gone().
  Status on_sums(int server, std::span<const std::byte> message);
  void on_server_gone(int server);
  // Of a relay: what became of it.
  void on_relayed(Relay relay, const Status& status);
  // Steps wait for what other servers tell.
  bool exchanges_norms() const;

  // What is to be done now; call after each of the above.
  Actions take_actions() { return std::exchange(actions_, {}); }

  // Bytes of contributions: of open rounds, and of payloads that are on their way.
  std::uint64_t held_bytes() const;
  // Bytes of payloads that are asked for and not there yet.
  std::size_t expected_bytes(int worker) const;
  // The worker has run so far ahead of the others in this store that its requests to it had better
  // wait.
  bool is_ahead(int worker, std::uint16_t store) const;
  // There was a store, and every worker has left every one.
  bool is_over() const;

 private:
  struct Key {
    KeyDescription description;
    std::map<std::uint32_t, std::unique_ptr<Part>> parts;  // by slice
    std::optional<NormExchange> norms;                     // of tensors that are cut
  };
  struct Lookup {
    int worker;
    Request request;
    std::string name;
  };
  struct Store {
    Store(std::uint16_t n, int workers, const Rules& r)
        : number(n), rules(r), clocks(workers, r.bound) {}
    std::uint16_t number;
    Rules rules;
    ClockTable clocks;
    // By the clock they begin with. A worker may set several in one clock, of which the last holds;
    // the others must set the same ones.
    struct Setting {
      std::vector<optim::Optimizer> in_turn;
      std::vector<std::size_t> set_by;  // worker: how many
    };
    std::map<std::uint64_t, Setting> optimizers;
    std::map<std::uint32_t, Key> keys;
    std::map<std::string, std::vector<std::byte>> directory;
    std::vector<Lookup> lookups;
    // Of a relay: clocks below it have ended, as the servers were told; a part that holds the next
    // news back.
    std::uint64_t told = 0;
    const Part* blocking = nullptr;
  };
  struct Flush {
    int worker;
    Request request;
    std::uint64_t before;  // waits for the payloads with lower ids
  };
  struct Payload {
    int worker = 0;
    Request request;
    int layer = 0;
    Buffer data;
    std::size_t bytes = 0;
  };
  using Inline = std::span<const std::byte>;

  Status open(int worker, const Request& request, Inline body);
  Status serve(Store& store, int worker, const Request& request, Inline body);
  Status create(Store& store, Inline body);
  Status lookup(Store& store, int worker, const Request& request, Inline body);
  Status publish(Store& store, Inline body);
  Status set_optimizer(Store& store, int worker, const Request& request, Inline body);
  Status push(Store& store, int worker, const Request& request, Inline body);
  Status check_push(const Store& store, const Part* part, int worker, const Request& request) const;
  Result<int> place_push(Store& store, Part& part, int worker, const Request& request);
  static Request pull_behind(const Request& push);
  Status pull(Store& store, int worker, const Request& request, Inline body,
              std::uint64_t behind_payload = 0);
  Status read_ids(const TablePart& table, WaitingPull& pull, Inline body);
  Status flush(int worker, const Request& request);
  void stats(const Store& store, int worker, const Request& request);

  void take_in(Payload payload);
  void settle(Store& store, Part& part);
  void settle_one(Store& store, Part& part);
  void close_with_others(Store& store, Part& part, std::uint64_t clock);
  void tell_sums(Store& store, Part& part, std::uint64_t clock, std::vector<SquareSums> sums);
  void tell_of_nothing(Store& store, Part& part);
  void finish_steps(Store& store, Key& key, std::uint64_t clock);
  void refuse_orphans(Store& store, Part& part);
  void answer_pulls(Store& store, Part& part);
  Status create_relayed(Store& store, const KeyDescription& key);
  void relay_sums(Store& store, Part& part, std::uint64_t clock);
  void relay(Store& store, Part& part, std::uint64_t clock, int priority,
             std::vector<RoundSum> sums);
  bool is_here(Store& store, Part& part, const WaitingPull& pull);
  void lose(Store& store, RelaySlice& slice, const Status& why);
  void refuse_lost(RelaySlice& slice);
  void tell_clock(Store& store);
  void settle_all(Store& store);
  void settle_push(const Request& request, int worker);
  void leave(Store& store, int worker);
  void forget_optimizers(Store& store);
  void retire(std::uint16_t number);
  // Counts what waits for others.
  static std::size_t waiting_cost(const Request& request) {
    return sizeof(Request) + request.inlined;
  }
  Status wait_with(int worker, std::size_t bytes);
  void let_go(int worker, std::size_t bytes);
  UpdateRule rule_at(const Store& store, std::uint64_t clock) const;
  Part* find_part(Store& store, const Request& request);
  void reply(int worker, const Request& request, std::span<const std::byte> bytes);
  void refuse(int worker, const Request& request, const Status& why);
  void answer_flushes(int worker);
  std::string key_name(const Store& store, const Request& request) const;

  int workers_;
  int server_;
  int servers_;
  bool relays_;
  std::size_t relays_under_way_ = 0;
  std::vector<bool> here_;
  Buffers buffers_;
  std::map<std::uint16_t, Store> stores_;
  std::map<std::uint64_t, Payload> payloads_;  // asked for
  std::vector<Flush> flushes_;
  std::vector<std::size_t> waiting_bytes_;  // by worker
  std::uint64_t next_id_ = 1;
  std::set<int> servers_gone_;
  std::deque<std::pair<Store*, Part*>> unsettled_;
  bool settling_ = false;
  Actions actions_;
};

}  // namespace syncline::ps
