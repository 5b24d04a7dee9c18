// Turns a checked call into what the executor runs.
#pragma once

#include "collective/plan_cache.h"
#include "exec/operation.h"

namespace syncline::collective {

// Segments and window for `count` elements of the whole vector; program and buffers' geometry set,
// everything else left to the caller.
exec::OperationRequest make_request(const Planned& planned, Collective kind, DType type,
                                    std::size_t count);

// The same for blocks that need not be equal; sets their segment_elements. The schedule has one
// chunk per block.
exec::OperationRequest make_request(const Planned& planned, DType type,
                                    std::unique_ptr<exec::Blocks> blocks);

}  // namespace syncline::collective
