// Operation: one running instance of a program over real buffers. Confined to the baton's holder.
//
// States: running -> done | failed. run() is called at every pass of the engine; it moves what can
// move and returns. Segment instances [oldest_, next_) are in flight, at most `window` of them; an
// instance retires when all its lanes have ended. A frame is taken from the channel's front when
// the lane that waits for it reaches it; frames that block others are moved to memory by spill().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exec/channel.h"
#include "exec/layout.h"
#include "exec/program.h"
#include "exec/work_state.h"
#include "wire/fingerprint.h"

namespace syncline::exec {

struct OperationRequest {
  Group* group = nullptr;            // stays while the engine knows it
  const Program* program = nullptr;  // owned by the group
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t block_count = 0;  // elements of one block (of the whole vector when blocks == 1)
  // Set where blocks differ in length, and for all_to_all; block_count then is only for messages.
  std::unique_ptr<const Blocks> blocks;
  DType type = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  int divisor = 0;  // > 0: average
  int root = -1;    // -1: the collective has none
  std::uint32_t segments = 1;
  std::uint32_t window = 1;
  std::string name;
  Nanos timeout = 0;  // of the whole operation
  bool background = false;
  bool reproducible = false;  // of a reduction; ranks compare it
};

// For the flight record; ticks of the recorder's counter.
struct FlightMarks {
  std::uint64_t start = 0;
  std::uint64_t first = 0;  // seen to move, at a tick; 0: never
  std::uint64_t last = 0;
  std::uint32_t moves = 0;  // passes that moved something
  std::uint32_t moves_seen = 0;
  Nanos age = 0;  // of the next progress record
  Nanos due = 0;  // 0: no tick has seen the operation
};

// What the ranks must agree on.
wire::Operation descriptor_of(const OperationRequest& request);

// In FrameHeader::step of an inquiry: the peer is to say what it does.
inline constexpr std::uint32_t kAskWhere = 1;

class Operation {
 public:
  // Operations are recycled: start() gives a new or cleared object its task, clear() drops all
  // references but keeps the memory.
  void start(OperationRequest&& request, std::uint64_t number, std::shared_ptr<WorkState> work,
             Nanos deadline);
  void clear();

  // True if anything moved.
  bool run(std::uint64_t pass);
  bool done() const { return status_.ok() && oldest_ == layout_.segments(); }
  const Status& status() const { return status_; }  // not ok: failed

  void fail(const Status& status);
  // Copies the channel's front frame, which must be of this operation, into memory. False if the
  // frame can be taken by a lane right now.
  bool spill(int group_rank, const transport::Frame& frame);
  // Hands over a frame that arrived before the operation was started.
  void adopt(int group_rank, const transport::FrameHeader& header, std::vector<std::byte> payload);
  // Compares with the peer's idea of this operation; fails on a difference.
  bool check_fingerprint(int group_rank, const transport::FrameHeader& header);

  std::uint64_t number() const { return number_; }
  Group& group() { return *request_.group; }
  const std::shared_ptr<WorkState>& work() const { return work_; }  // may be null
  void set_work(std::shared_ptr<WorkState> work) { work_ = std::move(work); }
  OperationRequest& request() { return request_; }
  Nanos deadline() const { return deadline_; }
  wire::Operation descriptor() const { return descriptor_of(request_); }
  FlightMarks& marks() { return marks_; }
  bool is_short() const { return layout_.segments() == 1; }
  // Peers in step need no longer for it than for a few cache lines.
  bool is_small() const {
    return is_short() && layout_.segment_count_max() * element_bytes_ <= kSmallBytesMax;
  }
  const transport::Fingerprint& fingerprint() const { return header_.fingerprint; }
  // True a few times in the life of an operation that takes long: the engine then asks the peers
  // whether they are in the same one.
  bool inquiry_due(Nanos now);
  transport::FrameHeader inquiry() const;
  // True when nothing has moved for `stall`, and then every few stalls.
  bool stall_due(Nanos now, Nanos stall);
  // When stall_due() first saw that nothing moves.
  Nanos still_since() const { return still_since_; }
  // What peers said they do about it: " (rank 1 has not called it)" or empty.
  const std::string& verdict() const { return verdict_; }
  // `late`: world rank of a peer that has not called it, else -1.
  void add_verdict(const std::string& text, int late);
  // The first such peer; -1 if none is known.
  int late_rank() const { return late_rank_; }
  std::string label() const;     // "all_reduce #12 'fc1.weight'"
  std::string awaiting() const;  // "rank 1 (host b), rank 2 (host b)"
  // A lane waits for a frame of this peer.
  bool awaits(int group_rank) const;
  // A lane can only go on with a frame from, or to, this peer, and no such frame waits in memory.
  bool stuck_on(int group_rank) const;

 private:
  static constexpr std::size_t kSmallBytesMax = 4 << 10;
  // A peer that has not called yet may keep them all in its staging.
  static constexpr int kInquiriesMax = 5;

  struct Instance {
    std::uint32_t segment = 0;
    std::uint32_t lanes_left = 0;
    std::byte* scratch = nullptr;
    std::uint32_t* counters = nullptr;  // by lane: the next step
  };
  struct Spilled {
    int group_rank = 0;
    std::uint32_t step = 0;
    std::uint32_t segment = 0;
    std::vector<std::byte> payload;
  };
  struct Location {
    std::byte* data = nullptr;
    bool accumulator = false;
  };
  struct Payload {
    const std::byte* data = nullptr;
    std::size_t bytes = 0;
    std::size_t spilled = SIZE_MAX;  // index into spilled_, SIZE_MAX: the channel's front
  };

  void start_instances();
  bool run_instance(Instance& instance);
  bool execute(const CompiledStep& step, Instance& instance);
  bool ready(const CompiledStep& step, const Instance& instance) const;
  bool execute_send(const CompiledStep& step, Instance& instance);
  bool execute_receive(const CompiledStep& step, Instance& instance);
  bool find_payload(const CompiledStep& step, const Instance& instance, Payload& payload);
  void release(const CompiledStep& step, const Payload& payload);
  Location locate(const Place& place, const Instance& instance, const Extent& extent) const;
  Location locate_plain(const Place& place, const Instance& instance, const Extent& extent) const;
  Location locate_in_blocks(const Place& place, const Instance& instance,
                            const Extent& extent) const;
  bool send_block(const CompiledStep& step, Channel& channel, const std::byte* source) const;
  bool in_out_storage(std::uint16_t chunk) const;
  // The step's chunk has no segment of this instance: it is over.
  bool skips(const CompiledStep& step, const Instance& instance) const;
  bool has_unequal_blocks() const { return request_.blocks != nullptr && request_.blocks->unequal; }
  // Of the message that carries a block: it says how long the sender thinks that the block is.
  transport::Fingerprint block_fingerprint(std::uint32_t chunk) const;
  transport::Fingerprint expected_fingerprint(int group_rank, std::uint32_t tag) const;
  void copy(Location dst, Location src, std::size_t count, bool finish) const;
  Instance& at(std::uint32_t segment) { return instances_[segment % window_]; }
  const CompiledStep* waiting_step(const Instance& instance, std::size_t lane) const;

  bool is_prepared_for(const OperationRequest& request) const;
  // What depends only on the program and on what is in the request beside buffers and divisor.
  void prepare();
  void prepare_instances();

  OperationRequest request_;
  const Program* program_ = nullptr;
  std::uint64_t number_ = 0;
  std::shared_ptr<WorkState> work_;
  Nanos deadline_ = 0;
  Nanos inquire_at_ = 0;  // 0: not yet known
  int inquiries_left_ = kInquiriesMax;
  Nanos stall_at_ = 0;  // 0: something moved since the last look
  Nanos still_since_ = 0;
  std::string verdict_;
  bool verdict_is_old_ = false;  // the peers were asked again since
  int late_rank_ = -1;
  FlightMarks marks_;
  Status status_;
  Layout layout_;
  std::uint64_t pass_ = 0;
  std::size_t element_bytes_ = 0;
  std::size_t accumulator_bytes_ = 0;
  std::size_t slot_bytes_ = 0;
  std::size_t in_origin_ = 0;  // element of the whole vector at in[0]
  std::size_t out_origin_ = 0;
  bool acc_is_element_ = true;     // accumulate type == element type
  transport::FrameHeader header_;  // prefilled
  std::uint32_t oldest_ = 0;
  std::uint32_t next_ = 0;
  std::uint32_t window_ = 1;
  std::vector<Instance> instances_;  // the first window_ are in use
  std::vector<std::uint32_t> counters_;
  std::unique_ptr<std::byte[]> scratch_;
  std::size_t scratch_bytes_ = 0;
  std::uint64_t prepared_for_ = 0;  // Program::serial; 0: prepare again
  std::vector<Spilled> spilled_;
};

}  // namespace syncline::exec
