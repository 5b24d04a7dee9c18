#include "collective/request.h"

#include <algorithm>

#include "kernels/reduce.h"
#include "plan/partition.h"

namespace syncline::collective {

exec::OperationRequest make_request(const Planned& planned, Collective kind, DType type,
                                    std::size_t count) {
  const exec::Program& program = *planned.program;
  const std::size_t width =
      size_of(program.accumulator_on_wire ? kernels::accumulate_type(type) : type);
  exec::OperationRequest request;
  request.program = planned.program.get();
  request.block_count = program.blocks == 1 ? count : count / program.blocks;
  request.type = type;
  request.segments = count * width <= planned.segment_bytes
                         ? 1
                         : static_cast<std::uint32_t>(plan::segments_for(
                               kind, program.size, count, static_cast<int>(program.chunks), width,
                               planned.segment_bytes));
  request.window = planned.window;
  return request;
}

exec::OperationRequest make_request(const Planned& planned, DType type,
                                    std::unique_ptr<exec::Blocks> blocks) {
  const exec::Program& program = *planned.program;
  const std::size_t width =
      size_of(program.accumulator_on_wire ? kernels::accumulate_type(type) : type);
  blocks->segment_elements = std::max<std::size_t>(1, planned.segment_bytes / width);
  exec::OperationRequest request;
  request.program = planned.program.get();
  request.type = type;
  request.window = planned.window;
  request.blocks = std::move(blocks);
  return request;
}

}  // namespace syncline::collective
