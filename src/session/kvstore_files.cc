// KVStore::Impl: saving and loading.
#include <algorithm>

#include "ps/update.h"
#include "session/kvstore_impl.h"
#include "session/store_file.h"
#include "session/store_loader.h"
#include "session/store_saver.h"

namespace syncline {
namespace {

Status unfit(const std::string& path, const std::string& why) {
  return Status(Code::kInvalidArgument, path + ": " + why);
}

// What the file's state is for, and what the store steps with.
Status check_optimizers(const std::string& path, const std::optional<optim::Optimizer>& saved,
                        const std::optional<optim::Optimizer>& set) {
  if (!saved.has_value()) return {};
  const std::string name = session::optimizer_name(saved->kind());
  if (!set.has_value()) {
    return unfit(path, "was saved with the optimiser " + name + "; call set_optimizer() first");
  }
  if (set->kind() == saved->kind() && set->custom_id() == saved->custom_id()) return {};
  return unfit(path, "was saved with the optimiser " + name + ", this store has " +
                         session::optimizer_name(set->kind()) + "; set the same");
}

// How much state there is only who has the function knows.
void require_known(const std::string& path, const session::StoreContents& contents,
                   const char* operation) {
  Status known = contents.optimizer.has_value() ? ps::check_known(*contents.optimizer) : Status();
  for (const auto& key : contents.keys) {
    if (known.ok() && key.optimizer.has_value()) known = ps::check_known(*key.optimizer);
  }
  if (known.ok()) return;
  throw Error(unfit(path,
                    "worker 0 must know the custom update too, for its state; call "
                    "optim::register_update() there")
                  .with_operation(operation));
}

}  // namespace

void KVStore::Impl::save(const std::string& path) {
  flush();
  if (worker_ != 0) return;
  MutexLock making(making_);
  session::StoreContents contents;
  {
    MutexLock lock(mutex_);
    contents.optimizer = optimizer_;
    for (const auto& [name, key] : keys_) contents.keys.push_back(key);
  }
  std::sort(contents.keys.begin(), contents.keys.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
  require_known(path, contents, "save");
  session::StoreSaver saver(clients_, contents, call_of(0, 1));
  throw_if_error(saver.save(path).with_operation("save"));
}

void KVStore::Impl::load(const std::string& path) {
  check_open("load");
  if (worker_ != 0) return;
  MutexLock making(making_);
  const auto file = checkpoint::TensorFileReader::open(path);
  if (!file.ok()) throw Error(file.status().with_operation("load"));
  const auto& header = file.value()->header();
  const auto description = header.metadata.find(session::kStoreMetadata);
  if (description == header.metadata.end() || !header.checksum_at.has_value()) {
    throw Error(unfit(path, "is no key-value store's file").with_operation("load"));
  }
  auto contents = session::store_from_json(description->second);
  if (!contents.ok()) {
    throw Error(Status(contents.status().code(), path + ": " + contents.status().message())
                    .with_operation("load"));
  }
  std::optional<optim::Optimizer> optimizer;
  {
    MutexLock lock(mutex_);
    optimizer = optimizer_;
    if (!keys_.empty()) {
      throw Error(Status(Code::kFailedPrecondition, "load comes before the first init")
                      .with_operation("load"));
    }
  }
  throw_if_error(check_optimizers(path, contents->optimizer, optimizer).with_operation("load"));
  require_known(path, contents.value(), "load");
  for (const ps::KeyDescription& key : contents->keys) {
    if (key.dtype != DType::kBool || sums_) continue;
    throw Error(
        unfit(path, "'" + key.name + "' is of bools, which have no mean; use a store that sums")
            .with_operation("load"));
  }
  session::StoreLoader loader(clients_, *file.value(), call_of(0, 1));
  for (ps::KeyDescription& key : contents->keys) {
    key.key = next_key_++;
    key.slices = place(key, std::nullopt);
    const Status loaded = loader.load(key, contents->optimizer);
    if (!loaded.ok()) {
      throw Error(Status(loaded.code(), path + ": '" + key.name + "': " + loaded.message())
                      .caused_by(loaded)
                      .with_operation("load"));
    }
    introduce(key);
    MutexLock lock(mutex_);
    keys_.emplace(key.name, std::move(key));
  }
}

}  // namespace syncline
