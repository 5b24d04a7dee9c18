// Engine: moves the bytes of all operations of one rank.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/flight_recorder.h"
#include "base/mutex.h"
#include "event/poller.h"
#include "event/thread.h"
#include "exec/channel.h"
#include "exec/event_count.h"
#include "exec/operation.h"
#include "exec/point_to_point.h"
#include "exec/work_state.h"
#include "syncline/work.h"
#include "wire/messages.h"

namespace syncline::exec {

struct EngineOptions {
  int rank = 0;
  std::string name;  // for messages; "": "rank 0" by its number
  Nanos suspect = kSecond;
  Nanos silence = 10 * kSecond;
  Nanos stall = 10 * kSecond;  // 0: never say anything
  std::function<void(const std::string&)> log;
  // Set: no progress thread, no real time; the owner calls step(). For simulations.
  const Clock* stepped_by = nullptr;
};

// Thread-safe. Everything behind the baton (channels, groups, operations, poller callbacks) is
// touched only by the thread that holds it: a caller that waits, or else the progress thread.
// Nobody sleeps with the baton. Callbacks of works run after it is given back.
//
// Progress thread: parked on the poller; drives operations that nobody waits for, and fires timers
// at least every 100 ms, whatever the callers do.
class Engine : public std::enable_shared_from_this<Engine> {
 public:
  explicit Engine(EngineOptions options);
  ~Engine();  // stop() first

  // Before start(): wiring, single-threaded.
  event::Poller& poller() { return poller_; }
  Channel* add_channel(int world_rank, std::string peer,
                       std::unique_ptr<transport::Endpoint> endpoint);
  // Called with the baton at every tick (at least every 100 ms) until it returns false. Blocks for
  // the baton.
  void add_ticker(std::function<bool(Nanos now)> ticker);
  // Of the clock that its ticks count by. Thread-safe.
  Nanos now() const {
    return options_.stepped_by != nullptr ? options_.stepped_by->now() : monotonic_now();
  }
  void set_crowded(bool crowded) { crowded_ = crowded; }
  // May be null. Without one nothing is noted.
  void set_flight(std::shared_ptr<flight::FlightRecorder> flight) { flight_ = std::move(flight); }
  void start();

  // A call of either sort, begun by start() of a batch.
  struct Call {
    OperationRequest operation;  // if it has a group
    MessageRequest message;      // else this
    std::shared_ptr<WorkState> work;
  };

  // Groups must stay known to the engine from before their first submit() until remove_group(); a
  // removed group stays alive until its operations have ended.
  void add_group(std::shared_ptr<Group> group);
  void remove_group(const std::shared_ptr<Group>& group);
  Status group_status(const Group& group);

  // Starts the operation; never blocks. The group's operations are numbered in the order of calls.
  // A small one may have ended already: whoever calls in step with its peers gets it done within a
  // fraction of a microsecond, sooner than it could ask for it.
  Work submit(OperationRequest&& request);
  // Starts a send or receive; never blocks. Those of a group begin in the order of calls.
  std::shared_ptr<WorkState> submit(MessageRequest&& request);
  // Starts all of them, in this order, before any of them waits for anything. Takes what they hold.
  void submit(std::span<Call> calls);
  // Drives or sleeps until `work` is done; its status. kSoon: this thread waits again at once, so
  // that the progress thread need not be woken to take over.
  enum class Again : std::uint8_t { kUnknown, kSoon };
  Status wait(WorkState& work, Again again = Again::kUnknown);
  // The same, at most until `deadline` (monotonic): then kTimeout, which means "not yet".
  Status wait_until(WorkState& work, Nanos deadline, Again again = Again::kUnknown);

  // One pass of everything, timers included, at the time of options.stepped_by. True if an
  // operation moved. Nobody may wait() on a work meanwhile.
  bool step();

  // Ends what runs with kShutdown, says goodbye to all peers, delivers what was accepted (at most
  // `linger`), ends the progress thread. Idempotent.
  void stop(Nanos linger);

  // Frames that had to be copied out of the way; for tests and statistics.
  std::uint64_t spilled_frames() const { return spilled_frames_.load(std::memory_order_relaxed); }

 private:
  struct Pending {
    OperationRequest request;
    std::shared_ptr<WorkState> work;
  };
  struct PendingMessage {
    MessageRequest request;
    std::shared_ptr<WorkState> work;
  };
  struct EarlyFrame {
    Channel* channel = nullptr;
    transport::FrameHeader header;
    std::vector<std::byte> payload;
  };
  struct OwedAbort {
    Channel* channel = nullptr;
    transport::FrameHeader header;
    std::vector<std::byte> payload;
    Nanos until = 0;
  };
  using OperationKey = std::pair<std::uint32_t, std::uint64_t>;  // comm, op

  bool try_take();
  void give();

  // With the baton:
  bool pass();
  void admit_pending();
  Work begin_here(OperationRequest&& request);
  // Without a `work` the operation is its caller's alone until it gets one (Operation::set_work).
  Operation& begin(OperationRequest&& request, std::shared_ptr<WorkState> work);
  void pass_until_ended(int passes);
  void begin_message(MessageRequest&& request, std::shared_ptr<WorkState> work);
  bool move_messages();
  void take_message(Channel& channel, const transport::Frame& frame);
  bool is_dead(std::uint32_t comm, const Group* group) const;
  void reap_groups();
  void finish(std::size_t index);
  void fail_operation(Operation& operation);
  void break_group(Group& group, const Status& why, std::uint64_t op, bool tell);
  void send_abort(Channel& channel, std::uint32_t comm, std::uint64_t op, const Status& why);
  void retry_aborts(Nanos now);
  bool look_at_fronts();
  bool take_control_frame(Channel& channel, const transport::Frame& frame);
  bool place_data_frame(Channel& channel, const transport::Frame& frame);
  void answer(Channel& channel, const transport::FrameHeader& inquiry);
  void inquire(Nanos now);
  void watch_front(Channel& channel, Nanos now);
  void watch_stalls(Nanos now);
  void tell_where(Channel& channel, const transport::FrameHeader& question);
  void note_where(const Channel& channel, const transport::FrameHeader& header,
                  const wire::NotifyMessage& answer);
  std::string last_call(const Group& group) const;
  void break_by_disagreement(Group& group, const Channel& channel,
                             const transport::FrameHeader& header);
  // An operation that waits for a frame of this peer; nullptr if none.
  Operation* find_waiting(const Channel& channel) const;
  Operation* find_operation(std::uint32_t comm, std::uint64_t op) const;
  static int group_rank_of(const Group& group, const Channel& channel);
  void tick(Nanos now);
  void watch_channel(Channel& channel, Nanos now, Nanos own_pause);
  void lose_channel(Channel& channel, const Status& why);
  void check_departed(Channel& channel, const Status& why, Nanos now);
  void check_deadlines(Nanos now);
  bool arm();
  void disarm();

  // What goes into the flight record (engine_flight.cc).
  void record_enqueued(const OperationRequest& request);
  void record_group(Group& group, bool made);
  void record_begin(Operation& operation);
  void record_starts();
  void record_start(Operation& operation);
  void record_end(Operation& operation);
  void record_tick(Nanos now);
  void record_waiting(flight::Kind kind, Operation& operation);
  void record_peer(flight::Kind kind, const Channel& channel, Nanos silent);
  void record_break(const Group& group, const Status& why, std::uint64_t op);
  void record_message(flight::Kind kind, const Channel& channel, std::uint32_t comm,
                      std::uint64_t op, int blamed, std::uint8_t code, const std::string& text);

  void drive(WorkState& work, Nanos deadline);
  void back_off(int idle, Nanos idle_since, Nanos now, Nanos deadline);
  void sleep_armed(Nanos timeout);
  void progress_loop();
  void kick();
  void log(const std::string& line) const;

  static constexpr Nanos kNever = INT64_MAX;

  const EngineOptions options_;
  std::shared_ptr<flight::FlightRecorder> flight_;
  bool all_far_ = false;  // there are peers, all on other hosts
  bool crowded_ =
      false;  // more runnable ranks than cores on this host: a waiting rank must not spin
  std::atomic<bool> baton_{false};
  EventCount changed_;  // a work completed, or the baton became free
  std::atomic<bool> stopping_{false};
  std::atomic<bool> napping_long_{false};
  std::atomic<int> callers_asleep_{0};
  std::atomic<std::uint64_t> submissions_{0};  // changes with every call; not exact
  std::atomic<std::uint64_t> spilled_frames_{0};
  std::atomic<std::uint32_t> running_{0};  // operations behind the baton

  Mutex submit_mutex_;
  std::vector<Pending> pending_ SYNCLINE_GUARDED_BY(submit_mutex_);
  std::vector<PendingMessage> pending_messages_ SYNCLINE_GUARDED_BY(submit_mutex_);
  std::atomic<bool> has_pending_{false};

  // Guarded by the baton.
  event::Poller poller_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::map<std::uint32_t, std::shared_ptr<Group>> groups_;
  // Ids grow: a group that is not known and not above this one has ended.
  std::uint32_t newest_group_ = 0;
  std::vector<std::shared_ptr<Group>> removed_groups_;  // in groups_ until their operations end
  std::vector<std::unique_ptr<Operation>> operations_;  // in order of start
  std::vector<std::unique_ptr<Operation>> spare_;       // cleared, to be used again
  std::map<OperationKey, std::vector<EarlyFrame>> early_;
  std::size_t early_bytes_ = 0;
  // Of groups that are not known yet, by id: the cause and the operation.
  std::map<std::uint32_t, std::pair<Status, std::uint64_t>> early_aborts_;
  std::vector<std::function<bool(Nanos)>> tickers_;
  std::vector<OwedAbort> owed_aborts_;
  WorkState::Completions completions_;
  std::vector<Pending> admitted_;
  std::vector<PendingMessage> admitted_messages_;
  PointToPoint messages_{completions_};
  // The outcome of an operation without a work; its caller has the baton from its begin on.
  struct Outcome {
    bool ended = false;
    Status status;
  };
  Outcome outcome_;
  std::uint64_t pass_ = 0;
  std::uint32_t idle_passes_ = 0;
  std::uint32_t unrecorded_ = 0;  // operations whose start is not in the flight record yet
  Nanos last_tick_ = 0;
  bool armed_ = false;

  event::NamedThread thread_;
};

}  // namespace syncline::exec
