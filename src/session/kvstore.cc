#include "syncline/kvstore.h"

#include <algorithm>
#include <charconv>

#include "base/env.h"
#include "session/kvstore_impl.h"
#include "session/log.h"
#include "session/session_impl.h"
#include "session/stores.h"

namespace syncline {

Consistency Consistency::parse(const std::string& text) {
  const std::string bounded = "bounded_staleness:";
  if (text == "bulk_synchronous") return bulk_synchronous();
  if (text == "asynchronous") return asynchronous();
  std::uint64_t bound = 0;
  const char* const end = text.data() + text.size();
  if (text.rfind(bounded, 0) == 0) {
    const auto parsed = std::from_chars(text.data() + bounded.size(), end, bound);
    if (parsed.ec == std::errc() && parsed.ptr == end && bound < UINT64_MAX) {
      return bounded_staleness(bound);
    }
  }
  throw Error(Status(Code::kInvalidArgument, "'" + text +
                                                 "' is no consistency; use bulk_synchronous, "
                                                 "bounded_staleness:N or asynchronous"));
}

std::string Consistency::to_string() const {
  if (bound_ == 0) return "bulk_synchronous";
  if (bound_ == UINT64_MAX) return "asynchronous";
  return "bounded_staleness:" + std::to_string(bound_);
}

KVStore::KVStore(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
KVStore::KVStore(KVStore&&) noexcept = default;
KVStore& KVStore::operator=(KVStore&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}

KVStore::~KVStore() {
  if (impl_ == nullptr) return;
  try {
    impl_->finish();
  } catch (const Error&) {  // nobody to tell; finish() tells who calls it
  }
}

void KVStore::set_optimizer(const optim::Optimizer& optimizer) { impl_->set_optimizer(optimizer); }
void KVStore::init(const std::string& key, ConstTensorView value, std::optional<int> server) {
  impl_->init(key, value, server);
}
void KVStore::create_table(const std::string& table, const TableOptions& options) {
  impl_->create_table(table, options);
}
Work KVStore::push(const std::string& key, ConstTensorView value, const Push& options) {
  return impl_->push(key, value, options);
}
Work KVStore::push(const std::string& key, const std::vector<ConstTensorView>& values,
                   const Push& options) {
  return impl_->push_sum(key, values, options);
}
Work KVStore::pull(const std::string& key, TensorView out, const Pull& options) {
  return impl_->pull(key, out, options.priority());
}
Work KVStore::push_pull(const std::string& key, TensorView inout, const Push& options) {
  return impl_->push_pull(key, inout, options);
}
Work KVStore::push_rows(const std::string& table, ConstTensorView ids, ConstTensorView gradients,
                        const Push& options) {
  return impl_->push_rows(table, ids, gradients, options);
}
Work KVStore::pull_rows(const std::string& table, ConstTensorView ids, TensorView rows,
                        const Pull& options) {
  return impl_->pull_rows(table, ids, rows, options.priority());
}
void KVStore::clock() { impl_->clock(); }
std::uint64_t KVStore::current_clock() const { return impl_->current_clock(); }
void KVStore::flush() { impl_->flush(); }
void KVStore::finish() { impl_->finish(); }
void KVStore::save(const std::string& path) { impl_->save(path); }
void KVStore::load(const std::string& path) { impl_->load(path); }
bool KVStore::sums_on_hosts() const { return impl_->sums_on_hosts(); }
int KVStore::servers() const { return impl_->servers(); }
std::vector<KVServerStats> KVStore::stats() { return impl_->stats(); }

KVStore Session::kvstore(const KVStoreOptions& code_options) {
  KVStoreOptions options = code_options;
  if (const auto forced = env("SYNCLINE_CONSISTENCY"); forced.has_value() && !forced->empty()) {
    options.consistency(Consistency::parse(*forced));
    if (options.consistency().bound() != code_options.consistency().bound()) {
      session::log_line(impl_->rank, "SYNCLINE_CONSISTENCY=" + *forced + " overrides " +
                                         code_options.consistency().to_string());
    }
  }
  return KVStore(session::open_store(*impl_, options));
}

}  // namespace syncline
