#include "ps/dense_slice.h"

#include <algorithm>
#include <cstring>

#include "base/planted.h"
#include "kernels/reduce.h"
#include "ps/slice_state.h"

namespace syncline::ps {
namespace {

float* floats(const Buffer& buffer) { return reinterpret_cast<float*>(buffer.get()); }

}  // namespace

DenseSlice::DenseSlice(int workers, const Rules& rules, bool immediate, DType type,
                       std::size_t count, bool cut, Buffers& buffers)
    : Part(workers, rules, immediate),
      type_(type),
      count_(count),
      cut_(cut),
      buffers_(&buffers),
      rounds_(workers, type, count, buffers) {}

DType DenseSlice::wide_type() const { return kernels::accumulate_type(type_); }

bool DenseSlice::steps(const UpdateRule& rule) const {
  return rule.optimizer != nullptr && wide_type() == DType::kF32;
}

// Nobody else reads what it returns.
Buffer DenseSlice::writable(Buffer value) {
  if (value.use_count() == 1 || SYNCLINE_PLANTED(answers_change)) return value;
  Buffer copy = buffers_->take(wide_bytes());
  std::memcpy(copy.get(), value.get(), wide_bytes());
  return copy;
}

void DenseSlice::replace(Buffer value) {
  if (value_ != nullptr) buffers_->give(std::move(value_), wide_bytes());
  value_ = std::move(value);
  answer_ = nullptr;
}

void DenseSlice::assign(Buffer data) { replace(rounds_.widen(std::move(data))); }

Result<std::size_t> dense_push_bytes(const Request& push, DType type, std::size_t count) {
  if (push.dtype == type && push.count == count) return count * size_of(type);
  return Status(Code::kMismatch, "has " + std::to_string(push.count) + " " + to_string(push.dtype) +
                                     " elements, the server's slice has " + std::to_string(count) +
                                     " " + to_string(type) + " elements");
}

Result<std::size_t> DenseSlice::push_bytes(const Request& push) const {
  if (push.summed && gate.immediate()) return Status(Code::kCorrupt, "is a sum without a round");
  return dense_push_bytes(push, push.summed ? wide_type() : type_, count_);
}

void DenseSlice::keep(Contribution contribution) {
  const std::uint64_t age = age_of(contribution.worker);
  rounds_.keep(std::move(contribution), age);
}

bool DenseSlice::close(std::uint64_t clock, const UpdateRule& rule) {
  RoundSum round = rounds_.take(clock);
  Buffer sum = std::move(round.data);
  if (sum == nullptr) return true;
  if (rule.combine == Combine::kMeanBySamples && round.samples > 0) {
    if (round.weighted) {
      kernels::scale(wide_type(), sum.get(), sum.get(), count_, 1 / round.samples);
    } else {
      kernels::copy(wide_type(), {sum.get(), true}, {sum.get(), true}, count_,
                    static_cast<int>(round.contributions));
    }
  }
  if (!steps(rule)) {
    ages.count(round.age);
    replace(std::move(sum));
    return true;
  }
  if (cut_ && needs_norms(*rule.optimizer) && !SYNCLINE_PLANTED(norms_of_one_slice)) {
    stepping_ = Stepping{clock, std::move(sum), begin_step(rule, round.age), {}};
    advance(stepping_->optimizer, steps_, slice_of(stepping_->gradient), stepping_->sums);
    return false;
  }
  step(sum, rule, round.age);
  buffers_->give(std::move(sum), wide_bytes());
  return true;
}

void DenseSlice::apply(Contribution contribution, const UpdateRule& rule) {
  const std::uint64_t age = age_of(contribution.worker);
  Buffer gradient = rounds_.widen(std::move(contribution.data));
  if (steps(rule)) {
    step(gradient, rule, age);
  } else {
    ages.count(age);
    answer_ = nullptr;
    value_ = writable(std::move(value_));
    kernels::reduce(wide_type(), ReduceOp::kSum, {value_.get(), true}, {value_.get(), true},
                    {gradient.get(), true}, count_);
  }
  buffers_->give(std::move(gradient), wide_bytes());
}

// Of one update: its optimiser, its number, room for its state.
optim::Optimizer DenseSlice::begin_step(const UpdateRule& rule, std::uint64_t age) {
  ages.count(age);
  optim::Optimizer optimizer = *rule.optimizer;
  if (rule.scale_by_age) optimizer.lr(optimizer.lr() / static_cast<double>(1 + age));
  make_slots(optimizer);
  ++steps_;
  return optimizer;
}

Slice DenseSlice::slice_of(const Buffer& gradient) {
  Slice slice;
  slice.count = count_;
  slice.weights = floats(value_);
  slice.gradient = floats(gradient);
  for (std::size_t i = 0; i < slot_count_; ++i) slice.slots[i] = floats(slots_[i]);
  return slice;
}

void DenseSlice::step(const Buffer& gradient, const UpdateRule& rule, std::uint64_t age) {
  const optim::Optimizer optimizer = begin_step(rule, age);
  answer_ = nullptr;
  value_ = writable(std::move(value_));
  const Slice slice = slice_of(gradient);
  std::vector<SquareSums> sums;
  advance(optimizer, steps_, slice, sums);
  syncline::ps::apply(optimizer, steps_, needs_norms(optimizer) ? trust_ratio(optimizer, sums) : 1,
                      slice);
}

std::optional<std::uint64_t> DenseSlice::stepping() const {
  if (!stepping_.has_value()) return std::nullopt;
  return stepping_->clock;
}

void DenseSlice::finish_step(std::span<const SquareSums> sums) {
  answer_ = nullptr;
  value_ = writable(std::move(value_));
  const double trust = trust_ratio(stepping_->optimizer, sums);
  syncline::ps::apply(stepping_->optimizer, steps_, trust, slice_of(stepping_->gradient));
  buffers_->give(std::move(stepping_->gradient), wide_bytes());
  stepping_.reset();
}

Result<Answer> DenseSlice::answer(const WaitingPull& pull) {
  note_seen(pull.worker);
  if (answer_ == nullptr && wide_type() == type_) {
    answer_ = value_;
  } else if (answer_ == nullptr) {
    answer_ = buffers_->take(count_ * size_of(type_));
    kernels::copy(type_, {answer_.get(), false}, {value_.get(), true}, count_);
  }
  return Answer{answer_, count_, type_};
}

void DenseSlice::make_slots(const optim::Optimizer& optimizer) {
  for (; slot_count_ < slot_count(optimizer); ++slot_count_) {
    slots_[slot_count_] = buffers_->take(wide_bytes());
    std::fill_n(floats(slots_[slot_count_]), count_, initial_slot_value(optimizer));
  }
}

Answer DenseSlice::state(const Request&, const UpdateRule& rule) {
  if (steps(rule)) make_slots(*rule.optimizer);
  Answer answer;
  answer.type = DType::kU8;
  answer.count = slice_state_bytes(type_, count_, slot_count_);
  answer.data = buffers_->take(answer.count);
  StateHeader header;
  header.steps = steps_;
  header.slots = static_cast<std::uint32_t>(slot_count_);
  encode(header, {answer.data.get(), kStateHeaderBytes});
  std::byte* out = answer.data.get() + kStateHeaderBytes;
  out = std::copy_n(value_.get(), wide_bytes(), out);
  for (std::size_t i = 0; i < slot_count_; ++i)
    out = std::copy_n(slots_[i].get(), wide_bytes(), out);
  return answer;
}

bool DenseSlice::takes_state(std::uint64_t bytes) const {
  return bytes <= slice_state_bytes(type_, count_, kSlotsMax);
}

Status DenseSlice::restore(std::span<const std::byte> state) {
  const auto header = decode_state(state);
  if (!header.ok()) return header.status();
  const std::size_t slots = header->slots;
  if (state.size() != slice_state_bytes(type_, count_, slots) ||
      (slots > 0 && wide_type() != DType::kF32)) {
    return Status(Code::kCorrupt, "the state of another slice");
  }
  const std::byte* from = state.data() + kStateHeaderBytes;
  Buffer value = buffers_->take(wide_bytes());
  std::copy_n(from, wide_bytes(), value.get());
  replace(std::move(value));
  for (slot_count_ = 0; slot_count_ < slots; ++slot_count_) {
    from += wide_bytes();
    slots_[slot_count_] = buffers_->take(wide_bytes());
    std::copy_n(from, wide_bytes(), slots_[slot_count_].get());
  }
  steps_ = header->steps;
  return {};
}

PartSizes DenseSlice::sizes() const {
  PartSizes sizes;
  sizes.value = value_ == nullptr ? 0 : wide_bytes();
  sizes.state = slot_count_ * wide_bytes();
  sizes.held = rounds_.held_bytes();
  if (stepping_.has_value()) sizes.held += wide_bytes();
  return sizes;
}

}  // namespace syncline::ps
