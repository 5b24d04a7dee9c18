// KVStore::Impl: a client, the keys it knows, and the worker's clock. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "ps/client.h"
#include "session/communicator_impl.h"
#include "session/store_clients.h"
#include "session/store_share.h"
#include "syncline/kvstore.h"

namespace syncline {

class KVStore::Impl {
 public:
  // `clients` are open. `share`: this process's own server, where the job has none.
  Impl(std::shared_ptr<SessionContext> context, session::StoreClients clients,
       std::shared_ptr<session::StoreShare> share, const KVStoreOptions& options);

  void set_optimizer(const optim::Optimizer& optimizer);
  void init(const std::string& key, ConstTensorView value, std::optional<int> server);
  void create_table(const std::string& table, const TableOptions& options);
  Work push(const std::string& key, ConstTensorView value, const Push& options);
  Work push_sum(const std::string& key, const std::vector<ConstTensorView>& values,
                const Push& options);
  Work pull(const std::string& key, TensorView out, int priority);
  Work push_pull(const std::string& key, TensorView inout, const Push& options);
  Work push_rows(const std::string& table, ConstTensorView ids, ConstTensorView gradients,
                 const Push& options);
  Work pull_rows(const std::string& table, ConstTensorView ids, TensorView rows, int priority);
  void clock();
  std::uint64_t current_clock();
  void flush();
  void finish();
  void save(const std::string& path);
  void load(const std::string& path);
  int servers() const { return clients_.tables->servers(); }
  bool sums_on_hosts() const { return clients_.relay != nullptr; }
  std::vector<KVServerStats> stats();

 private:
  ps::KeyDescription describe(const std::string& key, ConstTensorView value);
  // Of a key or table that exists; waits for worker 0. Throws Error.
  ps::KeyDescription find(const std::string& key, bool table);
  ps::KeyDescription find_for(const std::string& key, ConstTensorView view, const char* what);
  void check_open(const std::string& operation);
  void make(ps::KeyDescription key, const void* value, std::optional<int> server);
  std::vector<ps::PlacedSlice> place(const ps::KeyDescription& key, std::optional<int> server)
      SYNCLINE_REQUIRES(making_);
  void agree(const ps::KeyDescription& mine, const ps::KeyDescription& theirs);
  ps::Client::Call call_of(int priority, double samples);
  Status take_failure();
  void throw_failure() { throw_if_error(take_failure()); }
  void introduce(const ps::KeyDescription& key);
  Status flush_all();

  std::shared_ptr<SessionContext> context_;
  const session::StoreClients clients_;
  std::shared_ptr<session::StoreShare> share_;
  const int worker_;
  const bool bulk_;
  const bool sums_;
  const Nanos timeout_;
  Mutex making_;  // one key at a time, so that all are placed in one order
  ps::Placement placement_ SYNCLINE_GUARDED_BY(making_);
  std::uint32_t next_key_ SYNCLINE_GUARDED_BY(making_) = 1;
  Mutex mutex_;
  std::map<std::string, ps::KeyDescription> keys_ SYNCLINE_GUARDED_BY(mutex_);
  std::uint64_t clock_ SYNCLINE_GUARDED_BY(mutex_) = 0;
  bool whole_tensors_ SYNCLINE_GUARDED_BY(mutex_) = false;  // as its optimiser needs here
  std::optional<optim::Optimizer> optimizer_ SYNCLINE_GUARDED_BY(mutex_);
  bool finished_ SYNCLINE_GUARDED_BY(mutex_) = false;
};

}  // namespace syncline
