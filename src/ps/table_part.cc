#include "ps/table_part.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/splitmix.h"
#include "kernels/reduce.h"
#include "plan/canonical.h"
#include "ps/slice_state.h"

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

// FNV-1a. Not the key's number, which depends on what was made before it.
std::uint64_t table_seed(const std::string& table) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : table) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

void fill_row(const RowInit& init, std::uint64_t table_seed, std::int64_t id, float* row,
              std::size_t count) {
  const std::uint64_t base = mix(mix(init.seed ^ mix(table_seed)) ^ static_cast<std::uint64_t>(id));
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

std::size_t TablePart::slots() const { return row_slot_values(key_); }

TablePart::Row& TablePart::row(std::int64_t id) {
  const auto [at, made] = rows_.try_emplace(id);
  Row& found = at->second;
  if (!made) return found;
  in_order_.push_back(id);
  const float start = key_.optimizer.has_value() ? initial_slot_value(*key_.optimizer) : 0;
  found.values.assign(dim() + slots(), start);
  fill_row(key_.init, seed_, id, found.values.data(), dim());
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

bool TablePart::close(std::uint64_t clock, const UpdateRule& rule) {
  const auto at = rounds_.find(clock);
  if (at == rounds_.end()) return true;
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
  return true;
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

Answer TablePart::state(const Request& request, const UpdateRule&) {
  const std::size_t there = in_order_.size();
  const auto first = static_cast<std::size_t>(std::min<std::uint64_t>(request.count, there));
  const std::size_t count = std::min(there - first, rows_of_a_state(key_));
  Answer answer;
  answer.type = DType::kU8;
  answer.count = kStateHeaderBytes + count * row_state_bytes(key_);
  answer.data = buffers_->take(answer.count);
  StateHeader header;
  header.rows_there = there;
  header.rows = count;
  encode(header, {answer.data.get(), kStateHeaderBytes});
  auto* ids = reinterpret_cast<std::int64_t*>(answer.data.get() + kStateHeaderBytes);
  auto* steps = reinterpret_cast<std::uint64_t*>(ids + count);
  auto* values = reinterpret_cast<float*>(steps + count);
  for (std::size_t i = 0; i < count; ++i) {
    ids[i] = in_order_[first + i];
    const Row& row = rows_.at(ids[i]);
    steps[i] = row.steps;
    values = std::copy(row.values.begin(), row.values.end(), values);
  }
  return answer;
}

bool TablePart::takes_state(std::uint64_t bytes) const { return bytes <= state_bytes_max(key_, 0); }

Status TablePart::restore(std::span<const std::byte> state) {
  const auto header = decode_state(state);
  if (!header.ok()) return header.status();
  const auto count = static_cast<std::size_t>(header->rows);
  if (count > rows_of_a_state(key_) ||
      state.size() != kStateHeaderBytes + count * row_state_bytes(key_)) {
    return Status(Code::kCorrupt, "rows of another table");
  }
  const auto* ids = reinterpret_cast<const std::int64_t*>(state.data() + kStateHeaderBytes);
  const auto* steps = reinterpret_cast<const std::uint64_t*>(ids + count);
  const auto* values = reinterpret_cast<const float*>(steps + count);
  const std::string bad = refuse_ids(ids, count);
  if (!bad.empty()) return Status(Code::kCorrupt, bad);
  const std::size_t width = dim() + slots();
  for (std::size_t i = 0; i < count; ++i, values += width) {
    Row& restored = row(ids[i]);
    restored.steps = steps[i];
    restored.values.assign(values, values + width);
  }
  return {};
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
