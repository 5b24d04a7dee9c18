#include "collective/request.h"

#include <algorithm>

#include "kernels/reduce.h"
#include "plan/partition.h"

namespace syncline::collective {
namespace {

// Bytes that one rank keeps in flight to one peer: staging that stays in the second-level cache.
constexpr std::size_t kInFlightBytes = 1 << 20;
constexpr std::size_t kWindowMax = 16;

}  // namespace

exec::OperationRequest make_request(const Planned& planned, Collective kind, DType type,
                                    std::size_t count) {
  const exec::Program& program = *planned.program;
  const std::size_t width =
      size_of(program.accumulator_on_wire ? kernels::accumulate_type(type) : type);
  exec::OperationRequest request;
  request.program = planned.program;
  request.block_count = count / program.blocks;
  request.type = type;
  request.segments = static_cast<std::uint32_t>(plan::segments_for(
      kind, program.size, count, static_cast<int>(program.chunks), width, planned.segment_bytes));
  request.window = static_cast<std::uint32_t>(
      std::clamp<std::size_t>(kInFlightBytes / planned.segment_bytes, 2, kWindowMax));
  return request;
}

}  // namespace syncline::collective
