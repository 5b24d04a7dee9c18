// KVStore: keyed tensors and tables that all workers of a job share, with push and pull.
#ifndef SYNCLINE_KVSTORE_H_
#define SYNCLINE_KVSTORE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "syncline/optim.h"
#include "syncline/tensor_view.h"
#include "syncline/work.h"

namespace syncline {

// How far workers may run apart, in clocks: a worker's iteration, ended by KVStore::clock().
class Consistency {
 public:
  // A pull sees exactly the pushes of all workers up to the clock before, and, where this worker
  // has pushed the key in this clock, those of this one; it waits for them. The default.
  static Consistency bulk_synchronous() { return Consistency(0); }
  // A pull of clock c sees all pushes of the clocks below c - bound, and perhaps newer ones. (Ho et
  // al., "More effective distributed ML via a stale synchronous parallel parameter server", 2013.)
  static Consistency bounded_staleness(std::uint64_t bound) { return Consistency(bound); }
  // A pull waits for nothing but this worker's own pushes.
  static Consistency asynchronous() { return Consistency(UINT64_MAX); }
  // "bulk_synchronous", "bounded_staleness:3", "asynchronous"; throws Error (kInvalidArgument).
  static Consistency parse(const std::string& text);

  std::uint64_t bound() const { return bound_; }  // UINT64_MAX: asynchronous
  std::string to_string() const;

 private:
  explicit Consistency(std::uint64_t bound) : bound_(bound) {}
  std::uint64_t bound_;
};

// What becomes of the contributions of a clock.
enum class Reduce : std::uint8_t {
  kSum = 0,
  kMeanBySamples = 1,  // weighted by Push::samples
};

class KVStoreOptions {
 public:
  // SYNCLINE_CONSISTENCY overrides it.
  const Consistency& consistency() const { return consistency_; }
  KVStoreOptions& consistency(Consistency v) { return consistency_ = v, *this; }
  Reduce reduce() const { return reduce_; }
  KVStoreOptions& reduce(Reduce v) { return reduce_ = v, *this; }
  // Divides the rate of an update by 1 + the gradient's age, in updates of its slice since the
  // worker's last pull. (Zhang et al., "Staleness-aware async-SGD", 2016.)
  bool scale_by_age() const { return scale_by_age_; }
  KVStoreOptions& scale_by_age(bool v) { return scale_by_age_ = v, *this; }
  // Where workers share a host and some server is on another, what they push to tensors of a bulk
  // synchronous store is summed in shared memory, and the host's first worker sends the sum and
  // receives the value for all; if it dies the others' stores fail with it. Reproducible sessions
  // do it only where it gives the same bits. SYNCLINE_HOST_SUMS (0, 1) overrides it.
  bool host_sums() const { return host_sums_; }
  KVStoreOptions& host_sums(bool v) { return host_sums_ = v, *this; }
  // Deadline of one pull, flush or init; 0: the session's.
  std::chrono::milliseconds timeout() const { return timeout_; }
  KVStoreOptions& timeout(std::chrono::milliseconds v) { return timeout_ = v, *this; }

 private:
  Consistency consistency_ = Consistency::bulk_synchronous();
  Reduce reduce_ = Reduce::kSum;
  bool scale_by_age_ = false;
  bool host_sums_ = true;
  std::chrono::milliseconds timeout_{0};
};

// Options of one push.
class Push {
 public:
  // Larger ones go first; operations of one key keep their order.
  int priority() const { return priority_; }
  Push& priority(int v) { return priority_ = v, *this; }
  // How many samples are behind the value, for Reduce::kMeanBySamples; at least 0.
  double samples() const { return samples_; }
  Push& samples(double v) { return samples_ = v, *this; }

 private:
  int priority_ = 0;
  double samples_ = 1;
};

// Options of one pull.
class Pull {
 public:
  int priority() const { return priority_; }
  Pull& priority(int v) { return priority_ = v, *this; }

 private:
  int priority_ = 0;
};

// How rows of a table begin; the same on any number of servers.
class Init {
 public:
  enum class Kind : std::uint8_t { kConstant = 0, kUniform = 1, kNormal = 2 };
  static Init zeros() { return Init(Kind::kConstant, 0, 0, 0); }
  static Init constant(double value) { return Init(Kind::kConstant, value, 0, 0); }
  static Init uniform(double low, double high, std::uint64_t seed) {
    return Init(Kind::kUniform, low, high, seed);
  }
  // Mean 0.
  static Init normal(double deviation, std::uint64_t seed) {
    return Init(Kind::kNormal, 0, deviation, seed);
  }

  Kind kind() const { return kind_; }
  double a() const { return a_; }
  double b() const { return b_; }
  std::uint64_t seed() const { return seed_; }

 private:
  Init(Kind kind, double a, double b, std::uint64_t seed)
      : kind_(kind), a_(a), b_(b), seed_(seed) {}
  Kind kind_;
  double a_, b_;
  std::uint64_t seed_;
};

class TableOptions {
 public:
  std::size_t dim() const { return dim_; }  // f32 values of a row
  TableOptions& dim(std::size_t v) { return dim_ = v, *this; }
  // Ids are 0 .. rows - 1; 0: any id from 0 on.
  std::uint64_t rows() const { return rows_; }
  TableOptions& rows(std::uint64_t v) { return rows_ = v, *this; }
  TableOptions& unbounded() { return rows_ = 0, *this; }
  const Init& initializer() const { return initializer_; }
  TableOptions& initializer(Init v) { return initializer_ = v, *this; }
  // None: what is pushed is added to the row.
  const std::optional<optim::Optimizer>& optimizer() const { return optimizer_; }
  TableOptions& optimizer(const optim::Optimizer& v) { return optimizer_ = v, *this; }

 private:
  std::size_t dim_ = 0;
  std::uint64_t rows_ = 0;
  Init initializer_ = Init::zeros();
  std::optional<optim::Optimizer> optimizer_;
};

// One server's share.
struct KVServerStats {
  std::uint64_t value_bytes = 0;      // of weights
  std::uint64_t optimizer_bytes = 0;  // of optimiser state
  std::uint64_t waiting_bytes = 0;    // of contributions whose clock is open
  std::uint64_t rows = 0;
  std::uint64_t updates = 0;
  double age_mean = 0;  // of gradients, in updates of their slice
  std::uint64_t age_max = 0;
  std::uint64_t clocks_closed = 0;
};

// Made by Session::kvstore(). The launch decides where it lives: on the job's servers (`syncline
// run
// --servers`), or, without servers, in shares within the workers' own processes, which also shards
// an optimiser's state. The program is the same.
//
// Thread-safe. Staleness is counted in clocks of the store. Per worker and key, operations take
// effect in program order, and a pull sees the worker's own earlier pushes. With an optimiser the
// value of a key is its weights. Without one: bulk synchronous and bounded stores give the sum of
// the newest closed clock (the initial value before any), asynchronous ones add. A key without a
// push in a clock contributes nothing; a clock in which nobody pushes the key leaves its value.
//
// Errors: calls throw Error for what can be seen at once, Works fail with what comes later. A Work
// that failed with nobody holding it: the next call or flush() throws its error.
class KVStore {
 public:
  KVStore(KVStore&&) noexcept;
  KVStore& operator=(KVStore&&) noexcept;
  // finish(), without its errors.
  ~KVStore();

  // Before the first init(), on all workers alike, or kMismatch; blocks for a round trip. Again
  // later, with other numbers: they hold for pushes of this clock on, and every worker says them in
  // the same clock; does not block.
  void set_optimizer(const optim::Optimizer& optimizer);

  // Makes the key; worker 0's value wins. Blocks until worker 0 has called it. Again with the same
  // shape: no effect; with another: kInvalidArgument. `server`: all of the tensor there, by hand
  // (worker 0's word counts).
  void init(const std::string& key, ConstTensorView value,
            std::optional<int> server = std::nullopt);
  void create_table(const std::string& table, const TableOptions& options);

  // `value` is borrowed until the Work completes, which says that it has left this process.
  // kInvalidArgument: wrong type or count.
  Work push(const std::string& key, ConstTensorView value, const Push& options = {});
  // Values of several devices of this worker: sums them first.
  Work push(const std::string& key, const std::vector<ConstTensorView>& values,
            const Push& options = {});
  // A key that nobody has made yet is waited for.
  Work pull(const std::string& key, TensorView out, const Pull& options = {});
  // push(), then pull() into the same memory.
  Work push_pull(const std::string& key, TensorView inout, const Push& options = {});

  // KVStoreOptions::host_sums is in effect.
  bool sums_on_hosts() const;

  // Row ids.count() x dim of `rows` belong to ids (i64), which may repeat: repeated gradients are
  // summed. Rows that are not there yet come to be. ids and gradients are copied.
  Work push_rows(const std::string& table, ConstTensorView ids, ConstTensorView gradients,
                 const Push& options = {});
  Work pull_rows(const std::string& table, ConstTensorView ids, TensorView rows,
                 const Pull& options = {});

  // Ends this worker's iteration. Does not block.
  void clock();
  std::uint64_t current_clock() const;
  // Blocks until the servers (where hosts sum: for tensors, the host's first worker) have
  // everything that was pushed; throws what failed meanwhile.
  void flush();
  // flush(), then leaves: nobody waits for this worker any more. Later calls throw
  // kFailedPrecondition.
  void finish();

  // Everything in the store, optimiser state too, as a safetensors file (docs/kvstore.md), which
  // any number of servers reads. All workers call it; worker 0 writes, on its host, and returns
  // when the file is there under its name. It is a pull of every key: bulk synchronous stores save
  // exactly the clocks below this one (of a key that was pushed in this clock: this one too),
  // others what has arrived. Blocks; throws Error. A file of the same name stays whole until the
  // new one is.
  void save(const std::string& path);
  // In place of the first init(): makes the file's keys and tables with their values, which a later
  // init() or create_table() of the same shape leaves as they are. All workers call it; worker 0
  // reads. Needs the set_optimizer() that the file was saved with, of the same kind. Clocks begin
  // at 0 again. Blocks. kInvalidArgument: no such file; kCorrupt: it does not verify.
  void load(const std::string& path);

  int servers() const;
  std::vector<KVServerStats> stats();  // blocks for a round trip

  class Impl;
  explicit KVStore(std::shared_ptr<Impl> impl);

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace syncline

#endif  // SYNCLINE_KVSTORE_H_
