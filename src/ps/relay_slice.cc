#include "ps/relay_slice.h"

#include "base/planted.h"

namespace syncline::ps {

Result<std::size_t> RelaySlice::push_bytes(const Request& push) const {
  if (push.summed) return Status(Code::kCorrupt, "is a sum, which servers take, not relays");
  return dense_push_bytes(push, type_, count_);
}

bool RelaySlice::close(std::uint64_t clock, const UpdateRule&) {
  sums_ = rounds_.take_parts(clock);
  closing_ = !sums_.empty() && lost_.ok();
  closing_clock_ = clock;
  return !closing_;
}

void RelaySlice::finish(std::uint64_t clock, Buffer value) {
  closing_ = false;
  value_ = std::move(value);
  version_ = clock + 1;
}

// An older one may be asked for when a later round has closed before the fetch came back.
bool RelaySlice::is_of(std::uint64_t clock) const {
  if (!lost_.ok()) return false;
  if (fetched_.count(clock) > 0) return true;
  if (SYNCLINE_PLANTED(relay_answers_stale) && value_ != nullptr) return true;
  return value_ != nullptr && clock <= version_ && fetching_.count(clock) == 0;
}

void RelaySlice::end_fetch(std::uint64_t clock, Buffer value) {
  fetching_.erase(clock);
  if (value_ == nullptr || clock > version_) {
    value_ = value;
    version_ = clock;
  }
  fetched_[clock] = std::move(value);
}

void RelaySlice::lose(const Status& why) {
  closing_ = false;
  fetching_.clear();
  lost_ = why;
}

Result<Answer> RelaySlice::answer(const WaitingPull& pull) {
  const auto fetched = fetched_.find(pull.version());
  return Answer{fetched == fetched_.end() ? value_ : fetched->second, count_, type_};
}

PartSizes RelaySlice::sizes() const {
  PartSizes sizes;
  sizes.value = value_ == nullptr ? 0 : bytes();
  sizes.held = rounds_.held_bytes();
  return sizes;
}

}  // namespace syncline::ps
