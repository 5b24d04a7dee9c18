// What `syncline bench` is asked to do.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "syncline/types.h"

namespace syncline::tools {

struct BenchOptions {
  Collective kind = Collective::kAllReduce;
  std::uint64_t bytes_min = 1024;
  std::uint64_t bytes_max = 32 << 20;
  double step_factor = 8;
  std::uint64_t step_bytes = 0;  // > 0: adds instead of multiplying
  int iterations = 50;           // timed samples a size
  int warmup = 5;
  bool check = true;
  DType type = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  std::string schedule;          // "" = the planner's choice
  bool reproducible = false;     // measured beside the free choice
  std::string transport;         // "" = the best shared
  std::string format = "table";  // table, nccl-tests, osu, json
  std::string json;              // also write JSON: a file, or "-" for stdout
  bool quiet = false;
};

// True for kinds that combine contributions.
bool reduces(Collective kind);

// Our names and those of nccl-tests ("f32" and "float", "product" and "prod"). Errors:
// kInvalidArgument.
Result<Collective> parse_collective(std::string_view text);
Result<DType> parse_dtype(std::string_view text);
Result<ReduceOp> parse_reduce_op(std::string_view text);

// Sizes of the whole vector in bytes, ascending, each cut to whole elements on every rank (at least
// one). One size of 0 for a barrier.
std::vector<std::uint64_t> sizes(const BenchOptions& options, int ranks);

}  // namespace syncline::tools
