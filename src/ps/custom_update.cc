#include "ps/custom_update.h"

#include <map>

#include "base/mutex.h"
#include "ps/update.h"
#include "syncline/status.h"

namespace syncline {
namespace ps {
namespace {

struct CustomUpdates {
  Mutex mutex;
  std::map<std::uint32_t, std::shared_ptr<const CustomUpdate>> by_id SYNCLINE_GUARDED_BY(mutex);
};

CustomUpdates& custom_updates() {
  static CustomUpdates all;
  return all;
}

}  // namespace

std::shared_ptr<const CustomUpdate> find_custom_update(std::uint32_t id) {
  CustomUpdates& all = custom_updates();
  MutexLock lock(all.mutex);
  const auto found = all.by_id.find(id);
  return found == all.by_id.end() ? nullptr : found->second;
}

}  // namespace ps

void optim::register_update(std::uint32_t id, UpdateFunction update, std::size_t slots,
                            float initial) {
  if (update == nullptr || slots > ps::kSlotsMax) {
    throw Error(Status(Code::kInvalidArgument, "register_update: update " + std::to_string(id) +
                                                   " needs a function and at most " +
                                                   std::to_string(ps::kSlotsMax) + " slots"));
  }
  ps::CustomUpdates& all = ps::custom_updates();
  MutexLock lock(all.mutex);
  all.by_id[id] =
      std::make_shared<ps::CustomUpdate>(ps::CustomUpdate{std::move(update), slots, initial});
}

}  // namespace syncline
