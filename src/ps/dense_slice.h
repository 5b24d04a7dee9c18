// DenseSlice: a slice of a tensor on its server.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "ps/part.h"
#include "ps/update.h"

namespace syncline::ps {

// Confined. Values are kept in the accumulate type (of 16-bit floats: an f32 master) and answered
// in the key's type. An answer stays what it was while it is on its way: a value that somebody
// still reads is copied before it changes.
class DenseSlice : public Part {
 public:
  // `cut`: others have more of its tensor. Then the round of an optimiser that needs norms waits:
  //   close() -> stepping -> finish_step()
  DenseSlice(int workers, const Rules& rules, bool immediate, DType type, std::size_t count,
             bool cut, Buffers& buffers);

  void assign(Buffer data);  // of the key's type
  bool is_table() const override { return false; }
  bool has_value() const override { return value_ != nullptr; }

  Result<std::size_t> push_bytes(const Request& push) const override;
  void keep(Contribution contribution) override;
  bool close(std::uint64_t clock, const UpdateRule& rule) override;
  bool is_closing() const override { return stepping_.has_value(); }
  // The clock whose round waits for the tensor's norms.
  std::optional<std::uint64_t> stepping() const;
  const std::vector<SquareSums>& own_sums() const { return stepping_->sums; }
  // `sums`: of all slices, in their order.
  void finish_step(std::span<const SquareSums> sums);
  void apply(Contribution contribution, const UpdateRule& rule) override;
  Result<Answer> answer(const WaitingPull& pull) override;
  Answer state(const Request& request, const UpdateRule& rule) override;
  bool takes_state(std::uint64_t bytes) const override;
  Status restore(std::span<const std::byte> state) override;
  PartSizes sizes() const override;

 private:
  struct Stepping {
    std::uint64_t clock = 0;
    Buffer gradient;
    optim::Optimizer optimizer;
    std::vector<SquareSums> sums;
  };
  DType wide_type() const;
  // Optimisers know f32 weights; values of other types are sums in every store.
  bool steps(const UpdateRule& rule) const;
  std::size_t wide_bytes() const { return count_ * size_of(wide_type()); }
  Buffer writable(Buffer value);
  void step(const Buffer& gradient, const UpdateRule& rule, std::uint64_t age);
  optim::Optimizer begin_step(const UpdateRule& rule, std::uint64_t age);
  Slice slice_of(const Buffer& gradient);
  void replace(Buffer value);
  void make_slots(const optim::Optimizer& optimizer);

  DType type_;
  std::size_t count_;
  bool cut_;
  Buffers* buffers_;
  Buffer value_;   // wide
  Buffer answer_;  // in type_; value_ itself where the types are one; null: not made yet
  std::array<Buffer, kSlotsMax> slots_;
  std::size_t slot_count_ = 0;
  std::uint64_t steps_ = 0;
  RoundSums rounds_;
  std::optional<Stepping> stepping_;
};

}  // namespace syncline::ps
