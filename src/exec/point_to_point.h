// PointToPoint: the sends and receives of one rank. Confined to the baton's holder.
//
// Matching is MPI's: a receive takes the oldest message that fits its source and tag, a message
// goes to the oldest receive that fits it, and messages of one sender do not overtake each other,
// since their envelopes travel in order.
//
//   sends:     queued -> done                          small: eager, within the peer's credit
//              queued -> announced -> streaming -> done   else: waits until a receive is posted
//              queued -> streaming -> done                asked to go at once, within that credit
//   receives:  posted -> done | receiving -> done
//
// Bounded memory: a rank keeps at most kEagerCredit bytes of each peer's messages that nobody has
// asked for, kAtOnceCredit of those that are sent at once, and kAnnouncedMax envelopes. A sender
// without credit announces, and waits. Messages of a communicator that is still being made here are
// kept like others. Frames of messages never stay in a channel, so that they block nothing.
//
// Operations are numbered elsewhere and know nothing of this.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exec/channel.h"
#include "exec/work_state.h"
#include "syncline/work.h"
#include "wire/envelope.h"

namespace syncline::exec {

struct MessageRequest {
  Group* group = nullptr;  // stays while the engine knows it
  bool sends = false;
  int peer = 0;  // group rank; kAnySource
  int tag = 0;   // or kAnyTag
  void* data = nullptr;
  std::size_t count = 0;  // elements; of a receive: room
  DType type = DType::kF32;
  std::size_t segment_bytes = 0;  // of one frame at most
  Nanos timeout = 0;
  std::shared_ptr<MessageInfo> info;  // receives: written before the Work completes
  std::shared_ptr<void> keep;         // owns `data` where nobody else does until the end
  bool at_once = false;  // sends to far peers: with credit, before a receive is known to be posted
};

class PointToPoint {
 public:
  static constexpr std::size_t kEagerBytesMax = 32 << 10;
  static constexpr std::size_t kEagerCredit = 256 << 10;
  static constexpr std::size_t kAtOnceCredit = 4 << 20;
  static constexpr std::size_t kEnvelopeBytes = 64;  // what a message costs beside its bytes
  static constexpr std::size_t kAnnouncedMax = 65536;

  // Completed works leave their callbacks there.
  explicit PointToPoint(WorkState::Completions& completions) : completions_(completions) {}

  // `refusal`: ends at once with it, unless ok.
  void begin(MessageRequest&& request, std::shared_ptr<WorkState> work, Nanos deadline,
             const Status& refusal);
  // Nothing to do until something is begun or arrives.
  bool idle() const { return pending_ == 0; }
  // Sends what can be sent; true if anything moved.
  bool run();
  // A frame with kMessageFlag; the caller pops it. `group`: nullptr if it is not known; `dead`: it
  // never will be, or has ended. Not ok: the peer breaks the rules.
  Status take(Channel& channel, const transport::Frame& frame, Group* group, bool dead);

  // Some send or receive needs a frame of the peer.
  bool awaits(const Channel& channel) const;
  bool uses(const Group& group) const;
  // Ends what belongs to the group and forgets what arrived for it.
  void end_group(const Group& group, const Status& why);
  // The peer left in order, and all that it sent has been read.
  void peer_left(Channel& channel, const Status& why);
  void check_deadlines(Nanos now);
  void end_all(const Status& why);

  std::size_t kept_bytes() const;  // of messages that nobody has asked for; for tests

 private:
  enum class State : std::uint8_t { kQueued, kAnnounced, kStreaming, kPosted, kReceiving };
  struct Transfer;
  using Transfers = std::list<Transfer>;
  struct Peer {
    Channel* channel = nullptr;
    // Sends to it by state.
    std::deque<Transfers::iterator> queued;
    std::map<std::uint64_t, Transfers::iterator> announced;  // by id
    std::vector<Transfers::iterator> streaming;
    std::size_t eager_bytes = 0;    // sent and not known to be received, with envelopes
    std::size_t at_once_bytes = 0;  // sent, and not known to have found their receives
    std::size_t owed_at_once = 0;
    std::size_t kept_bytes = 0;      // of its eager messages, with envelopes
    std::size_t kept_announced = 0;  // its envelopes
    std::size_t kept_at_once = 0;    // of its messages that are sent at once
    std::size_t owed_credit = 0;
    std::deque<transport::FrameHeader> controls;  // that found no room
  };
  struct Transfer {
    MessageRequest request;
    std::shared_ptr<WorkState> work;
    Nanos deadline = 0;
    State state = State::kQueued;
    Peer* peer = nullptr;   // nullptr: this rank, or not known yet
    std::uint64_t id = 0;   // the sender's number
    std::size_t bytes = 0;  // of the message
    std::size_t moved = 0;
    std::uint32_t frames = 0;
  };
  struct Arrived {
    std::uint32_t comm = 0;
    Peer* peer = nullptr;  // nullptr: this rank
    wire::Envelope envelope;
    bool announced = false;
    bool at_once = false;  // announced, and its bytes follow
    std::uint64_t id = 0;
    const std::byte* data = nullptr;  // an eager message
    std::vector<std::byte> payload;   // where it is kept, or as much as has come
    Transfers::iterator local;        // announced, of this rank
  };

  Peer& peer_of(Channel& channel);
  void begin_local_send(Transfers::iterator send);
  bool run_peer(Peer& peer);
  bool start_send(Transfers::iterator send);
  bool stream(Transfer& send);
  transport::FrameHeader header_of(const Transfer& send, wire::MessageStep step) const;
  void control(Peer& peer, wire::MessageStep step, std::uint32_t comm, std::uint64_t id,
               std::uint32_t value = 0, const wire::Envelope* envelope = nullptr);
  bool flush(Peer& peer);
  void return_credit(Peer& peer, std::size_t bytes);
  void return_at_once(Peer& peer, std::size_t bytes);

  Status take_envelope(Peer& peer, const transport::Frame& frame, Group* group, bool dead);
  Status take_bytes(Peer& peer, const transport::Frame& frame);
  Status keep_bytes(Peer& peer, const transport::Frame& frame);
  void take_clear(Peer& peer, std::uint64_t id);
  void take_refusal(Peer& peer, const transport::FrameHeader& header);
  void take_withdrawal(Peer& peer, std::uint64_t id);
  void keep(Arrived&& message);
  void drop(const Arrived& message);
  Transfers::iterator find_receive(const Arrived& message, Group& group);
  static bool fits(const MessageRequest& receive, const Arrived& message);
  void deliver(Transfers::iterator receive, Arrived& message);
  void refuse_long(Transfers::iterator receive, Arrived& message);

  Transfers::iterator finish(Transfers& list, Transfers::iterator transfer, const Status& status);
  static std::string label(const MessageRequest& request);
  static std::string awaited(const Transfer& transfer);
  static std::string rank_name(const Group& group, int group_rank);

  WorkState::Completions& completions_;
  // Not by address: simulations run the same each time.
  struct ByRank {
    bool operator()(const Channel* a, const Channel* b) const {
      return a->world_rank < b->world_rank;
    }
  };
  std::map<const Channel*, Peer, ByRank> peers_;
  Transfers sends_, receives_;   // in the order of calls
  std::list<Arrived> arrived_;   // in the order of arrival
  std::size_t pending_ = 0;      // sends, receives and controls
  std::size_t local_bytes_ = 0;  // of eager messages to this rank, with envelopes
  std::uint64_t next_id_ = 1;
};

}  // namespace syncline::exec
