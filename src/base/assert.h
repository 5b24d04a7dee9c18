// Always-on assertion for bugs of ours; never for bad input.
#pragma once

namespace syncline {

// Prints one line and aborts.
[[noreturn]] void assertion_failed(const char* condition, const char* why, const char* file,
                                   int line);

}  // namespace syncline

#define SYNCLINE_ASSERT(condition, why) \
  ((condition) ? (void)0 : ::syncline::assertion_failed(#condition, why, __FILE__, __LINE__))
