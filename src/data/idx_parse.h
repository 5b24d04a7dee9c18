// IDX from memory: what read_idx() does with the content of a file. Pure; takes hostile bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "syncline/data/idx.h"

namespace syncline::data {

// `stored`: plain or gzip. `bytes_max` bounds the decompressed elements; `name` is for messages.
Result<IdxArray> parse_idx(const std::string& name, std::vector<unsigned char> stored,
                           std::uint64_t bytes_max);

}  // namespace syncline::data
