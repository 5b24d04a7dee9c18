#include "session/kvstore_impl.h"

#include <algorithm>
#include <cstring>

#include "kernels/reduce.h"
#include "ps/update.h"

namespace syncline {
namespace {

// Others may still need this process's share when its worker has finished.
constexpr Nanos kShareLinger = 10 * kSecond;

[[noreturn]] void refuse_store(Code code, const std::string& operation, const std::string& why) {
  throw Error(Status(code, why).with_operation(operation));
}

std::string shape_text(std::uint64_t count, DType type) {
  return std::to_string(count) + " " + to_string(type) + " elements";
}

void check_memory(ConstTensorView view, const std::string& operation) {
  if (view.device().kind != DeviceKind::kCpu) {
    refuse_store(Code::kUnsupported, operation,
                 "CUDA tensors are not supported yet; move the tensor to the CPU");
  }
  if (view.data() == nullptr && view.count() != 0) {
    refuse_store(Code::kInvalidArgument, operation, "null data pointer");
  }
}

std::size_t slice_bytes(const ps::WorkerLinks& links) {
  return links.servers_are_narrow() ? ps::Placement::kNarrowSliceBytes : ps::Placement::kSliceBytes;
}

}  // namespace

KVStore::Impl::Impl(std::shared_ptr<SessionContext> context, session::StoreClients clients,
                    std::shared_ptr<session::StoreShare> share, const KVStoreOptions& options)
    : context_(std::move(context)),
      clients_(std::move(clients)),
      share_(std::move(share)),
      worker_(clients_.tables->links().worker),
      bulk_(options.consistency().bound() == 0),
      sums_(options.reduce() == Reduce::kSum),
      timeout_(options.timeout().count() > 0 ? options.timeout().count() * kMillisecond
                                             : clients_.tables->links().timeout),
      placement_(servers(), slice_bytes(clients_.tensors->links())) {}

Status KVStore::Impl::take_failure() {
  Status first;
  for (ps::Client* client : clients_.all()) {
    if (client == nullptr) continue;
    const Status failure = client->take_failure();
    if (first.ok()) first = failure;
  }
  return first;
}

void KVStore::Impl::check_open(const std::string& operation) {
  {
    MutexLock lock(mutex_);
    if (finished_) {
      refuse_store(Code::kFailedPrecondition, operation, "this worker has finished with the store");
    }
  }
  throw_failure();
}

ps::Client::Call KVStore::Impl::call_of(int priority, double samples) {
  ps::Client::Call call;
  call.priority = priority;
  call.samples = samples;
  call.timeout = timeout_;
  MutexLock lock(mutex_);
  call.clock = clock_;
  return call;
}

void KVStore::Impl::set_optimizer(const optim::Optimizer& optimizer) {
  check_open("set_optimizer");
  const Status usable = ps::check(optimizer);
  if (!usable.ok()) throw Error(usable.with_operation("set_optimizer"));
  if (optimizer.kind() == optim::Kind::kRowwiseAdagrad) {
    refuse_store(Code::kInvalidArgument, "set_optimizer",
                 "RowwiseAdagrad is for tables; give it to create_table");
  }
  std::uint64_t clock = 0;
  bool first = false;
  {
    MutexLock lock(mutex_);
    const bool cut = std::any_of(keys_.begin(), keys_.end(),
                                 [](const auto& each) { return each.second.slices.size() > 1; });
    const bool whole = ps::needs_norms(optimizer) && !bulk_;
    if (whole && cut) {
      refuse_store(Code::kUnsupported, "set_optimizer",
                   "LARS and LAMB need whole tensors in this consistency: set them before the "
                   "first init");
    }
    whole_tensors_ = whole;
    clock = clock_;
    first = !optimizer_.has_value();
    optimizer_ = optimizer;
  }
  if (first) {
    throw_if_error(clients_.tensors->set_optimizer(optimizer, clock, timeout_));
  } else {
    clients_.tensors->send_optimizer(optimizer, clock);
  }
}

void KVStore::Impl::agree(const ps::KeyDescription& mine, const ps::KeyDescription& theirs) {
  if (mine.table != theirs.table) {
    refuse_store(Code::kInvalidArgument, "init '" + mine.name + "'",
                 theirs.table ? "there is a table of this name" : "there is a tensor of this name");
  }
  if (mine.count == theirs.count && mine.dtype == theirs.dtype) return;
  refuse_store(Code::kInvalidArgument, "init '" + mine.name + "'",
               "the key exists with " + shape_text(theirs.count, theirs.dtype) +
                   (mine.table ? " a row" : "") + ", this call has " +
                   shape_text(mine.count, mine.dtype) + "; its value stays");
}

// None of a table, whose rows say themselves where they are.
std::vector<ps::PlacedSlice> KVStore::Impl::place(const ps::KeyDescription& key,
                                                  std::optional<int> server) {
  if (key.table) return {};
  bool whole = false;
  {
    MutexLock lock(mutex_);
    whole = whole_tensors_;
  }
  const std::size_t width = size_of(key.dtype);
  return whole ? placement_.add_whole(key.count, width, server)
               : placement_.add(key.count, width, server);
}

void KVStore::Impl::make(ps::KeyDescription key, const void* value, std::optional<int> server) {
  MutexLock making(making_);
  std::optional<ps::KeyDescription> known;
  {
    MutexLock lock(mutex_);
    const auto found = keys_.find(key.name);
    if (found != keys_.end()) known = found->second;
  }
  if (known.has_value()) return agree(key, *known);
  if (worker_ == 0) {
    key.key = next_key_++;
    key.slices = place(key, server);
    ps::Client& client = key.table ? *clients_.tables : *clients_.tensors;
    Status made = client.create(key, value, timeout_);
    if (made.ok()) made = take_failure();
    throw_if_error(made.with_operation("init '" + key.name + "'"));
    clients_.tables->publish(key);
  } else {
    auto found = clients_.tables->lookup(key.name, timeout_);
    if (!found.ok()) throw Error(found.status());
    agree(key, found.value());
    key = std::move(found).value();
  }
  introduce(key);
  MutexLock lock(mutex_);
  keys_.emplace(key.name, std::move(key));
}

// A relay hears of a tensor from the first of its workers that uses it.
void KVStore::Impl::introduce(const ps::KeyDescription& key) {
  if (key.table || clients_.sums == clients_.tensors) return;
  Status known = clients_.sums->announce(key);
  if (known.ok()) known = context_->engine->wait(*clients_.sums->flush(timeout_));
  if (known.ok()) known = clients_.sums->take_failure();
  throw_if_error(known.with_operation("'" + key.name + "'"));
}

ps::KeyDescription KVStore::Impl::describe(const std::string& key, ConstTensorView value) {
  const std::string operation = "init '" + key + "'";
  check_open(operation);
  check_memory(value, operation);
  if (value.type() == DType::kBool && !sums_) {
    refuse_store(Code::kUnsupported, operation,
                 "bool has no mean; use a store that sums, or another type");
  }
  if (key.empty() || key.size() > ps::kKeyNameMax) {
    refuse_store(Code::kInvalidArgument, "init", "a key's name has 1 to 1024 bytes");
  }
  ps::KeyDescription description;
  description.name = key;
  description.dtype = value.type();
  description.count = value.count();
  return description;
}

void KVStore::Impl::init(const std::string& key, ConstTensorView value, std::optional<int> server) {
  if (server.has_value() && (*server < 0 || *server >= servers())) {
    refuse_store(Code::kInvalidArgument, "init '" + key + "'",
                 "server " + std::to_string(*server) + " of " + std::to_string(servers()));
  }
  make(describe(key, value), value.data(), server);
}

void KVStore::Impl::create_table(const std::string& table, const TableOptions& options) {
  auto description = describe(table, {});
  if (options.dim() == 0) {
    refuse_store(Code::kInvalidArgument, "create_table '" + table + "'",
                 "rows need a dimension; set TableOptions::dim");
  }
  if (options.dim() > ps::kRowElementsMax) {
    refuse_store(Code::kUnsupported, "create_table '" + table + "'",
                 "rows have at most " + std::to_string(ps::kRowElementsMax) + " elements");
  }
  if (options.optimizer().has_value()) {
    const Status usable = ps::check(*options.optimizer());
    if (!usable.ok()) throw Error(usable.with_operation("create_table '" + table + "'"));
  }
  description.table = true;
  description.count = options.dim();
  description.dtype = DType::kF32;
  description.rows_max = options.rows();
  const Init& init = options.initializer();
  description.init = {static_cast<ps::RowInit::Kind>(init.kind()), init.a(), init.b(), init.seed()};
  description.optimizer = options.optimizer();
  make(std::move(description), nullptr, std::nullopt);
}

ps::KeyDescription KVStore::Impl::find(const std::string& key, bool table) {
  ps::KeyDescription found;
  bool known = false;
  {
    MutexLock lock(mutex_);
    const auto at = keys_.find(key);
    known = at != keys_.end();
    if (known) found = at->second;
  }
  if (!known) {
    auto looked_up = clients_.tables->lookup(key, timeout_);
    if (!looked_up.ok()) throw Error(looked_up.status());
    found = std::move(looked_up).value();
    introduce(found);
    MutexLock lock(mutex_);
    keys_.emplace(key, found);
  }
  if (found.table != table) {
    refuse_store(Code::kInvalidArgument, "'" + key + "'",
                 table ? "is a tensor, not a table; use push and pull"
                       : "is a table; use push_rows and pull_rows");
  }
  return found;
}

ps::KeyDescription KVStore::Impl::find_for(const std::string& key, ConstTensorView view,
                                           const char* what) {
  const std::string operation = std::string(what) + " '" + key + "'";
  check_open(operation);
  check_memory(view, operation);
  auto description = find(key, false);
  if (description.count != view.count() || description.dtype != view.type()) {
    refuse_store(Code::kInvalidArgument, operation,
                 "the key has " + shape_text(description.count, description.dtype) +
                     ", the tensor " + shape_text(view.count(), view.type()));
  }
  if (clients_.sums != clients_.tensors) {  // all of it is with the relay
    for (ps::PlacedSlice& slice : description.slices) slice.server = 0;
  }
  return description;
}

Work KVStore::Impl::push(const std::string& key, ConstTensorView value, const Push& options) {
  const auto description = find_for(key, value, "push");
  return Work(clients_.sums->push(description, value.data(),
                                  call_of(options.priority(), options.samples())));
}

Work KVStore::Impl::push_sum(const std::string& key, const std::vector<ConstTensorView>& values,
                             const Push& options) {
  if (values.empty()) refuse_store(Code::kInvalidArgument, "push '" + key + "'", "no values");
  const auto description = find_for(key, values.front(), "push");
  auto sum = std::make_shared<std::vector<std::byte>>(values.front().bytes());
  if (!sum->empty()) std::memcpy(sum->data(), values.front().data(), sum->size());
  for (std::size_t i = 1; i < values.size(); ++i) {
    find_for(key, values[i], "push");
    kernels::reduce(description.dtype, ReduceOp::kSum, {sum->data(), false}, {sum->data(), false},
                    {values[i].data(), false}, values[i].count());
  }
  Work work(clients_.sums->push(description, sum->data(),
                                call_of(options.priority(), options.samples())));
  work.on_complete([sum](const Status&) {});
  return work;
}

Work KVStore::Impl::push_pull(const std::string& key, TensorView inout, const Push& options) {
  const auto description = find_for(key, inout, "push_pull");
  return Work(clients_.sums->push_pull(description, inout.data(),
                                       call_of(options.priority(), options.samples())));
}

Work KVStore::Impl::pull(const std::string& key, TensorView out, int priority) {
  const auto description = find_for(key, out, "pull");
  return Work(clients_.sums->pull(description, out.data(), call_of(priority, 1)));
}

namespace {

void check_rows(const ps::KeyDescription& table, ConstTensorView ids, ConstTensorView rows,
                const std::string& operation) {
  check_memory(ids, operation);
  check_memory(rows, operation);
  if (ids.type() != DType::kI64) {
    refuse_store(Code::kInvalidArgument, operation,
                 std::string("ids are i64, these are ") + to_string(ids.type()));
  }
  if (rows.type() == DType::kF32 && rows.count() == ids.count() * table.count) return;
  refuse_store(Code::kInvalidArgument, operation,
               std::to_string(ids.count()) + " ids of rows of " + std::to_string(table.count) +
                   " f32 elements, the tensor has " + shape_text(rows.count(), rows.type()));
}

}  // namespace

Work KVStore::Impl::push_rows(const std::string& table, ConstTensorView ids,
                              ConstTensorView gradients, const Push& options) {
  const std::string operation = "push_rows '" + table + "'";
  check_open(operation);
  const auto description = find(table, true);
  check_rows(description, ids, gradients, operation);
  return Work(clients_.tables->push_rows(description, static_cast<const std::int64_t*>(ids.data()),
                                         static_cast<const float*>(gradients.data()), ids.count(),
                                         call_of(options.priority(), options.samples())));
}

Work KVStore::Impl::pull_rows(const std::string& table, ConstTensorView ids, TensorView rows,
                              int priority) {
  const std::string operation = "pull_rows '" + table + "'";
  check_open(operation);
  const auto description = find(table, true);
  check_rows(description, ids, rows, operation);
  return Work(clients_.tables->pull_rows(description, static_cast<const std::int64_t*>(ids.data()),
                                         static_cast<float*>(rows.data()), ids.count(),
                                         call_of(priority, 1)));
}

void KVStore::Impl::clock() {
  check_open("clock");
  std::uint64_t clock = 0;
  {
    MutexLock lock(mutex_);
    clock = ++clock_;
  }
  for (ps::Client* client : clients_.in_use()) client->clock(clock);
}

std::uint64_t KVStore::Impl::current_clock() {
  MutexLock lock(mutex_);
  return clock_;
}

Status KVStore::Impl::flush_all() {
  std::vector<std::shared_ptr<WorkState>> works;
  for (ps::Client* client : clients_.in_use()) works.push_back(client->flush(timeout_));
  Status first;
  for (const auto& work : works) {
    const Status flushed = context_->engine->wait(*work);
    if (first.ok()) first = flushed;
  }
  return first;
}

void KVStore::Impl::flush() {
  check_open("flush");
  throw_if_error(flush_all());
  throw_failure();
}

void KVStore::Impl::finish() {
  {
    MutexLock lock(mutex_);
    if (finished_) return;
    finished_ = true;
  }
  const Status flushed = flush_all();
  for (ps::Client* client : clients_.in_use()) client->leave();
  if (share_ != nullptr) share_->wait_for_others(kShareLinger);
  if (clients_.relay != nullptr) clients_.relay->wait_for_others(kShareLinger);
  throw_if_error(flushed);
  throw_failure();
}

namespace {

KVServerStats stats_of(const ps::ServerStats& from) {
  KVServerStats one;
  one.value_bytes = from.value_bytes;
  one.optimizer_bytes = from.state_bytes;
  one.waiting_bytes = from.held_bytes;
  one.rows = from.rows;
  one.updates = from.updates;
  one.age_mean =
      from.updates == 0 ? 0 : static_cast<double>(from.age_sum) / static_cast<double>(from.updates);
  one.age_max = from.age_max;
  one.clocks_closed = from.closed;
  return one;
}

// A server's two stores; the clocks are those of all workers.
ps::ServerStats sum_of(ps::ServerStats a, const ps::ServerStats& b) {
  a.keys += b.keys;
  a.rows += b.rows;
  a.value_bytes += b.value_bytes;
  a.state_bytes += b.state_bytes;
  a.held_bytes += b.held_bytes;
  a.updates += b.updates;
  a.age_sum += b.age_sum;
  a.age_max = std::max(a.age_max, b.age_max);
  return a;
}

}  // namespace

std::vector<KVServerStats> KVStore::Impl::stats() {
  check_open("stats");
  auto found = clients_.tables->stats(timeout_);
  if (!found.ok()) throw Error(found.status());
  if (clients_.tensors != clients_.tables) {
    const auto more = clients_.tensors->stats(timeout_);
    if (!more.ok()) throw Error(more.status());
    for (std::size_t s = 0; s < more->size(); ++s)
      found.value()[s] = sum_of(found.value()[s], more.value()[s]);
  }
  std::vector<KVServerStats> all;
  for (const ps::ServerStats& each : found.value()) all.push_back(stats_of(each));
  return all;
}

}  // namespace syncline
