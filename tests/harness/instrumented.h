// Whether this build runs under a sanitizer: such code is up to 20 times slower, so that long
// proofs and matrices take a part of their cases there and all of them in the release build.
#pragma once

namespace syncline::harness {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kInstrumented = true;
#else
inline constexpr bool kInstrumented = false;
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kInstrumented = true;
#else
inline constexpr bool kInstrumented = false;
#endif

}  // namespace syncline::harness
