#include "tools/bench/options.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "plan/partition.h"

namespace syncline::tools {
namespace {

// Finds `text` among the names of an enumeration and the aliases.
template <class E>
Result<E> find_name(std::string_view text, int count, const char* what,
                    std::initializer_list<std::pair<const char*, E>> aliases) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    const char* const name = to_string(static_cast<E>(i));
    if (text == name) return static_cast<E>(i);
    all += fmt::format("{}{}", all.empty() ? "" : ", ", name);
  }
  for (const auto& [name, value] : aliases) {
    if (text == name) return value;
  }
  return Status(Code::kInvalidArgument,
                fmt::format("{} '{}' is unknown; there are {}", what, text, all));
}

}  // namespace

bool reduces(Collective kind) {
  return kind == Collective::kAllReduce || kind == Collective::kReduceScatter ||
         kind == Collective::kReduce;
}

Result<Collective> parse_collective(std::string_view text) {
  return find_name<Collective>(text, kCollectiveCount, "operation",
                               {{"allreduce", Collective::kAllReduce}});
}

Result<DType> parse_dtype(std::string_view text) {
  return find_name<DType>(text, kDTypeCount, "--datatype",
                          {{"float", DType::kF32},
                           {"double", DType::kF64},
                           {"half", DType::kF16},
                           {"bfloat16", DType::kBF16},
                           {"int8", DType::kI8},
                           {"uint8", DType::kU8},
                           {"int16", DType::kI16},
                           {"int32", DType::kI32},
                           {"int64", DType::kI64}});
}

Result<ReduceOp> parse_reduce_op(std::string_view text) {
  return find_name<ReduceOp>(text, kReduceOpCount, "--redop",
                             {{"avg", ReduceOp::kAverage}, {"prod", ReduceOp::kProduct}});
}

std::vector<std::uint64_t> sizes(const BenchOptions& options, int ranks) {
  if (options.kind == Collective::kBarrier) return {0};
  const bool in_blocks = plan::has_blocks(options.kind);
  const std::uint64_t unit =
      size_of(options.type) * static_cast<std::uint64_t>(in_blocks ? ranks : 1);
  std::vector<std::uint64_t> result;
  for (std::uint64_t bytes = options.bytes_min; bytes <= options.bytes_max;) {
    const std::uint64_t whole = std::max(bytes / unit, std::uint64_t{1}) * unit;
    if (result.empty() || result.back() != whole) result.push_back(whole);
    const auto grown = static_cast<std::uint64_t>(static_cast<double>(bytes) * options.step_factor);
    bytes = options.step_bytes > 0 ? bytes + options.step_bytes : std::max(grown, bytes + 1);
  }
  return result;
}

}  // namespace syncline::tools
