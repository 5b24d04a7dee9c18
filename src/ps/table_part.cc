#include "ps/table_part.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/splitmix.h"
#include "kernels/reduce.h"
#include "plan/canonical.h"

namespace syncline::ps {
namespace {

std::uint64_t mix(std::uint64_t x) { return splitmix(x + kSplitmixStep); }

// In (0, 1).
double unit(std::uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53; }

const std::int64_t* ids_of(const Contribution& push) {
  return reinterpret_cast<const std::int64_t*>(push.data.get());
}
const float* gradients_of(const Contribution& push) {
  return reinterpret_cast<const float*>(push.data.get() + push.count * sizeof(std::int64_t));
}

}  // namespace

int server_of_row(std::int64_t id, int servers) {
  return static_cast<int>(mix(static_cast<std::uint64_t>(id)) % static_cast<unsigned>(servers));
}

void fill_row(const RowInit& init, std::uint32_t table, std::int64_t id, float* row,
              std::size_t count) {
  const std::uint64_t base = mix(mix(init.seed ^ mix(table)) ^ static_cast<std::uint64_t>(id));
  for (std::size_t i = 0; i < count; ++i) {
    const double u = unit(mix(base + 2 * i));
    double value = init.a;
    if (init.kind == RowInit::Kind::kUniform) value = init.a + (init.b - init.a) * u;
    if (init.kind == RowInit::Kind::kNormal) {  // Box and Muller, 1958
      const double angle = 2 * std::numbers::pi * unit(mix(base + 2 * i + 1));
      value = init.a + init.b * std::sqrt(-2 * std::log(u)) * std::cos(angle);
    }
    row[i] = static_cast<float>(value);
  }
}

TablePart::TablePart(int workers, const Rules& rules, bool immediate, KeyDescription key,
                     Buffers& buffers)
    : Part(workers, rules, immediate),
      workers_(workers),
      key_(std::move(key)),
      buffers_(&buffers) {}

std::size_t TablePart::slots() const {
  if (!key_.optimizer.has_value()) return 0;
  return slot_count(*key_.optimizer) *
         (key_.optimizer->kind() == optim::Kind::kRowwiseAdagrad ? 1 : dim());
}

TablePart::Row& TablePart::row(std::int64_t id) {
  const auto [at, made] = rows_.try_emplace(id);
  Row& found = at->second;
  if (!made) return found;
  const float start = key_.optimizer.has_value() ? initial_slot_value(*key_.optimizer) : 0;
  found.values.assign(dim() + slots(), start);
  fill_row(key_.init, key_.key, id, found.values.data(), dim());
  return found;
}

std::string TablePart::refuse_ids(const std::int64_t* ids, std::size_t count) const {
  const auto outside = [&](std::int64_t id) {
    return id < 0 || (key_.rows_max > 0 && static_cast<std::uint64_t>(id) >= key_.rows_max);
  };
  const auto bad = std::find_if(ids, ids + count, outside);
  if (bad == ids + count) return {};
  const std::string room =
      key_.rows_max == 0 ? "ids are 0 or larger" : "has " + std::to_string(key_.rows_max) + " rows";
  return "row " + std::to_string(*bad) + " does not exist: the table " + room;
}

Result<std::size_t> TablePart::push_bytes(const Request& push) const {
  const std::size_t row_bytes = sizeof(std::int64_t) + dim() * sizeof(float);
  if (push.dtype != DType::kF32) {
    return Status(Code::kMismatch, std::string("has ") + to_string(push.dtype) + ", rows are f32");
  }
  if (push.count > kRowBytesMax / row_bytes) {
    return Status(Code::kMismatch,
                  "has " + std::to_string(push.count) + " rows, more than one push may carry");
  }
  return push.count * row_bytes;
}

void TablePart::keep(Contribution contribution) {
  rounds_[contribution.clock].push_back(std::move(contribution));
}

namespace {

void add_to(std::vector<float>& sum, const std::vector<float>& more) {
  kernels::reduce(DType::kF32, ReduceOp::kSum, {sum.data(), false}, {sum.data(), false},
                  {more.data(), false}, sum.size());
}

template <class Share>
void scale_share(const Share& share, std::vector<float>& out) {
  if (share.samples == 1) {
    std::copy_n(share.gradient, out.size(), out.begin());
  } else {
    kernels::scale(DType::kF32, out.data(), share.gradient, out.size(), share.samples);
  }
}

// The node [first, first + count) of the canonical tree over the shares that are there, into `sum`;
// false: there are none.
template <class Shares>
bool add_node(const Shares& shares, std::size_t begin, std::size_t end, int first, int count,
              std::vector<float>& sum) {
  if (begin == end) return false;
  const std::size_t dim = sum.size();
  if (end - begin == 1 || count == 1) {
    scale_share(shares[begin], sum);
    std::vector<float> next(count == 1 ? dim : 0);
    for (std::size_t i = begin + 1; i < end; ++i) {  // of one push that names the row twice
      scale_share(shares[i], next);
      add_to(sum, next);
    }
    return true;
  }
  const int split = plan::canonical_split(count);
  std::size_t middle = begin;
  while (middle < end && shares[middle].worker < first + split) ++middle;
  const bool left = add_node(shares, begin, middle, first, split, sum);
  if (!left) return add_node(shares, middle, end, first + split, count - split, sum);
  std::vector<float> right(dim);
  if (add_node(shares, middle, end, first + split, count - split, right)) add_to(sum, right);
  return true;
}

}  // namespace

void TablePart::sum_shares(std::vector<Share>& shares, const UpdateRule& rule,
                           std::vector<float>& sum) {
  std::stable_sort(shares.begin(), shares.end(), [](const Share& a, const Share& b) {
    return a.layer != b.layer ? a.layer < b.layer : a.worker < b.worker;
  });
  std::vector<float> layer(dim());
  bool first = true;
  for (std::size_t begin = 0; begin < shares.size();) {
    std::size_t end = begin;
    while (end < shares.size() && shares[end].layer == shares[begin].layer) ++end;
    add_node(shares, begin, end, 0, workers_, first ? sum : layer);
    if (!first) add_to(sum, layer);
    first = false;
    begin = end;
  }
  if (rule.combine != Combine::kMeanBySamples) return;
  double samples = 0;
  for (const Share& share : shares) samples += share.samples;
  if (samples > 0) kernels::scale(DType::kF32, sum.data(), sum.data(), dim(), 1 / samples);
}

void TablePart::close(std::uint64_t clock, const UpdateRule& rule) {
  const auto at = rounds_.find(clock);
  if (at == rounds_.end()) return;
  std::map<std::int64_t, std::vector<Share>> touched;
  std::uint64_t age = 0;
  for (const Contribution& push : at->second) {
    age = std::max(age, age_of(push.worker));
    for (std::size_t i = 0; i < push.count; ++i) {
      touched[ids_of(push)[i]].push_back(
          {push.layer, push.worker, gradients_of(push) + i * dim(), push.samples});
    }
  }
  ages.count(age);
  std::vector<float> sum(dim());
  for (auto& [id, shares] : touched) {
    sum_shares(shares, rule, sum);
    step(row(id), sum.data(), rule, age);
  }
  rounds_.erase(at);
}

void TablePart::apply(Contribution contribution, const UpdateRule& rule) {
  const std::uint64_t age = age_of(contribution.worker);
  ages.count(age);
  for (std::size_t i = 0; i < contribution.count; ++i) {
    step(row(ids_of(contribution)[i]), gradients_of(contribution) + i * dim(), rule, age);
  }
}

// Without an optimiser rows add up: a sum that replaced them would forget the rows' first values.
void TablePart::step(Row& row, const float* gradient, const UpdateRule& rule, std::uint64_t age) {
  float* weights = row.values.data();
  if (!key_.optimizer.has_value()) {
    kernels::reduce(DType::kF32, ReduceOp::kSum, {weights, false}, {weights, false},
                    {gradient, false}, dim());
    return;
  }
  optim::Optimizer optimizer = *key_.optimizer;
  if (rule.scale_by_age) optimizer.lr(optimizer.lr() / static_cast<double>(1 + age));
  ++row.steps;
  if (optimizer.kind() == optim::Kind::kRowwiseAdagrad) {
    update_row(optimizer, weights, weights[dim()], gradient, dim());
    return;
  }
  Slice slice;
  slice.count = dim();
  slice.weights = weights;
  slice.gradient = gradient;
  for (std::size_t i = 0; i < slot_count(optimizer); ++i)
    slice.slots[i] = weights + (1 + i) * dim();
  std::vector<SquareSums> sums;
  advance(optimizer, row.steps, slice, sums);
  syncline::ps::apply(optimizer, row.steps,
                      needs_norms(optimizer) ? trust_ratio(optimizer, sums) : 1, slice);
}

Result<Answer> TablePart::answer(const WaitingPull& pull) {
  note_seen(pull.worker);
  const auto* ids = reinterpret_cast<const std::int64_t*>(pull.ids.get());
  const auto count = static_cast<std::size_t>(pull.request.count);
  Answer answer{buffers_->take(count * dim() * sizeof(float)), count * dim(), DType::kF32};
  auto* out = reinterpret_cast<float*>(answer.data.get());
  for (std::size_t i = 0; i < count; ++i) {
    std::copy_n(row(ids[i]).values.data(), dim(), out + i * dim());
  }
  return answer;
}

PartSizes TablePart::sizes() const {
  PartSizes sizes;
  sizes.rows = rows_.size();
  sizes.value = rows_.size() * dim() * sizeof(float);
  sizes.state = rows_.size() * slots() * sizeof(float);
  for (const auto& [clock, pushes] : rounds_) {
    for (const Contribution& push : pushes) {
      sizes.held += push.count * (sizeof(std::int64_t) + dim() * sizeof(float));
    }
  }
  return sizes;
}

}  // namespace syncline::ps
