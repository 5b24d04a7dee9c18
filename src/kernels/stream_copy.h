// Copy past the caches, for memory that another core reads next.
#pragma once

#include <cstddef>

namespace syncline::kernels {

// Thread-safe. `dst` is aligned to 64 bytes and overlaps nothing. What is written is visible to
// whoever sees a later release store of this thread.
void stream_copy(void* dst, const void* src, std::size_t bytes);

}  // namespace syncline::kernels
