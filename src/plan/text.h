// Schedules as text (docs/formats/schedule-text.md): pure functions, thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "plan/schedule.h"

namespace syncline::plan {

inline constexpr std::size_t kScheduleTextBytesMax = std::size_t{64} << 20;

// "scratch[1:3]" (slot 1, chunk 3), "in[0]".
std::string to_text(const Slice& slice);
// One line without newline: "recv_reduce out[1] in[1] from 0 tag 2 element finish after 0.3".
std::string to_text(const Step& step);
std::string to_text(const Schedule& schedule);

// Reads what to_text() wrote, or a hand-written one. Verifies syntax and bounds only (check() in
// checker.h does the rest); memory grows with the text, never with a number in it. Errors are
// invalid_argument and name the line.
Result<Schedule> from_text(std::string_view text);

}  // namespace syncline::plan
