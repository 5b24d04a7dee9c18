// Sizes and times as people write them on command lines.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace syncline::tools {

// "4096", "1K", "25M", "25MiB", "2G": powers of 1024. Errors: kInvalidArgument.
Result<std::uint64_t> parse_bytes(std::string_view text);

// "500ms", "10s", "2m", "1h"; a bare number is seconds. Errors: kInvalidArgument.
Result<Nanos> parse_duration(std::string_view text);

// A whole decimal number within [low, high]; `what` names it in the message.
Result<int> parse_int(std::string_view text, int low, int high, std::string_view what);

}  // namespace syncline::tools
