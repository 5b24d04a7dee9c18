#include "collective/aggregator.h"

#include <new>
#include <utility>

#include "base/bytes.h"
#include "collective/request.h"
#include "kernels/reduce.h"

namespace syncline::collective {
namespace {

constexpr std::size_t kAnnounceBytesMax = 20 + kAnnounceNameMax;

Status bad_announcement() {
  return Status(Code::kCorrupt, "an announcement of an all_reduce that does not verify");
}

}  // namespace

std::vector<std::byte> encode(const Announcement& a) {
  ByteWriter out;
  out.put(static_cast<std::uint8_t>(a.type));
  out.put(static_cast<std::uint8_t>(a.op));
  out.put(static_cast<std::uint8_t>(a.reproducible ? 1 : 0));
  out.put(std::uint8_t{0});
  out.put(static_cast<std::uint32_t>(a.divisor));
  out.put(a.count);
  out.put_string(a.name);
  return out.take();
}

Result<Announcement> decode_announcement(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  Announcement a;
  a.type = static_cast<DType>(in.get<std::uint8_t>());
  a.op = static_cast<ReduceOp>(in.get<std::uint8_t>());
  const auto flags = in.get<std::uint8_t>();
  const auto zero = in.get<std::uint8_t>();
  const auto divisor = in.get<std::uint32_t>();
  a.count = in.get<std::uint64_t>();
  const std::string name = in.get_string(kAnnounceNameMax);
  if (!in.at_end() || flags > 1 || zero != 0 || divisor > INT32_MAX ||
      static_cast<int>(a.type) >= kDTypeCount || static_cast<int>(a.op) >= kReduceOpCount ||
      !kernels::is_supported(a.type, a.op) || a.count > SIZE_MAX / 2 / size_of(a.type)) {
    return bad_announcement();
  }
  a.reproducible = flags == 1;
  a.divisor = static_cast<int>(divisor);
  a.name = name;
  return a;
}

void Aggregator::start() {
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    MutexLock lock(mutex_);
    slots_[slot].bytes.resize(kAnnounceBytesMax);
    slots_[slot].info = std::make_shared<MessageInfo>();
  }
  for (std::size_t slot = 0; slot < kSlots; ++slot) listen(slot);
}

void Aggregator::listen(std::size_t index) {
  exec::MessageRequest request;
  request.group = aggregation_.group.get();
  request.peer = 0;
  request.tag = kAnnounceTag;
  request.type = DType::kU8;
  request.segment_bytes = kAnnounceBytesMax;
  {
    MutexLock lock(mutex_);
    Slot& slot = slots_[index];
    slot.done = false;
    request.data = slot.bytes.data();
    request.count = slot.bytes.size();
    request.info = slot.info;
  }
  engine_->submit(std::move(request))
      ->on_complete([self = shared_from_this(), index](const Status& status) {
        self->on_announced(index, status);
      });
}

void Aggregator::on_announced(std::size_t slot, const Status& status) {
  {
    MutexLock lock(mutex_);
    over_ = over_ || !status.ok();
    slots_[slot].done = true;
  }
  pump();
}

void Aggregator::pump() {
  for (;;) {
    Announcement next;
    std::size_t slot = 0;
    {
      MutexLock lock(mutex_);
      if (pumping_ || !take_next(next, slot)) return;  // who pumps looks again
      pumping_ = true;
    }
    begin(next);
    listen(slot);
    MutexLock lock(mutex_);
    pumping_ = false;
  }
}

bool Aggregator::take_next(Announcement& next, std::size_t& slot) {
  const Slot& head = slots_[head_];
  if (over_ || !head.done) return false;
  auto announced = decode_announcement({head.bytes.data(), head.info->count});
  if (!announced.ok()) {
    over_ = true;
    log_("rank 0: " + announced.status().message());
    return false;
  }
  const std::size_t bytes = announced->count * size_of(announced->type);
  if (under_way_ > 0 && under_way_ + bytes > kBytesMax) return false;
  under_way_ += bytes;
  next = std::move(announced).value();
  slot = std::exchange(head_, (head_ + 1) % kSlots);
  return true;
}

void Aggregator::begin(const Announcement& announcement) {
  const std::size_t bytes = announcement.count * size_of(announcement.type);
  const auto planned = aggregation_.plans->find({Collective::kAllReduce,
                                                 announcement.type,
                                                 announcement.count,
                                                 0,
                                                 {},
                                                 announcement.reproducible});
  Buffer buffer = planned.ok() ? take_buffer(bytes) : nullptr;
  if (buffer == nullptr) {
    const Status why =
        planned.ok() ? Status(Code::kExhausted, "no memory for " + std::to_string(bytes) + " bytes")
                     : planned.status();
    log_("an all_reduce cannot be summed here: " + why.message());
    return end_sum(nullptr, bytes, why);
  }
  auto request =
      make_request(*planned.value(), Collective::kAllReduce, announcement.type, announcement.count);
  request.group = aggregation_.group.get();
  request.out = buffer.get();
  request.op = announcement.op;
  request.divisor = announcement.divisor;
  request.name = announcement.name;
  request.reproducible = announcement.reproducible;
  request.background = true;
  engine_->submit(std::move(request))
      .on_complete([self = shared_from_this(), buffer, bytes](const Status& status) {
        self->end_sum(buffer, bytes, status);
      });
}

Buffer Aggregator::take_buffer(std::size_t bytes) {
  MutexLock lock(mutex_);
  try {
    return buffers_.take(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void Aggregator::end_sum(Buffer buffer, std::size_t bytes, const Status& status) {
  {
    MutexLock lock(mutex_);
    under_way_ -= bytes;
    over_ = over_ || !status.ok();
    if (buffer != nullptr) buffers_.give(std::move(buffer), bytes);
  }
  pump();
}

}  // namespace syncline::collective
