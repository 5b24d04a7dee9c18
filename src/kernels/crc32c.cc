#include "kernels/crc32c.h"

#include <cstring>

#include "kernels/crc32c_tables.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace syncline::kernels {
namespace {

std::uint64_t load64(const unsigned char* data) {
  std::uint64_t word;
  std::memcpy(&word, data, sizeof word);
  return word;
}

#if defined(__x86_64__)

// Three independent streams of kStream bytes hide the latency of the crc32 instruction; carry-less
// products move the first two past the bytes that follow them. Method: V. Gopal et al., "Fast CRC
// Computation for iSCSI Polynomial Using CRC32 Instruction", Intel 2011.
template <std::size_t kStream>
__attribute__((target("sse4.2,pclmul"))) const unsigned char* three_streams(
    std::uint64_t& crc, const unsigned char* data, const unsigned char* end) {
  // The product of two reflected values is off by one bit and crc32 of it adds 32: hence -33.
  constexpr std::uint32_t past_one = x_power(8 * kStream - 33);
  constexpr std::uint32_t past_two = x_power(16 * kStream - 33);
  const __m128i factors = _mm_set_epi64x(past_one, past_two);
  while (static_cast<std::size_t>(end - data) >= 3 * kStream) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (std::size_t i = 0; i < kStream; i += 8) {
      crc = _mm_crc32_u64(crc, load64(data + i));
      second = _mm_crc32_u64(second, load64(data + kStream + i));
      third = _mm_crc32_u64(third, load64(data + 2 * kStream + i));
    }
    const __m128i a =
        _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<long long>(crc)), factors, 0x00);
    const __m128i b =
        _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<long long>(second)), factors, 0x10);
    const long long moved = _mm_cvtsi128_si64(_mm_xor_si128(a, b));
    crc = _mm_crc32_u64(0, static_cast<std::uint64_t>(moved)) ^ third;
    data += 3 * kStream;
  }
  return data;
}

__attribute__((target("sse4.2,pclmul"))) std::uint32_t update_sse42(std::uint32_t crc,
                                                                    const unsigned char* data,
                                                                    std::size_t bytes) {
  const unsigned char* end = data + bytes;
  std::uint64_t state = crc;
  data = three_streams<5120>(state, data, end);
  data = three_streams<512>(state, data, end);
  data = three_streams<64>(state, data, end);
  for (; end - data >= 8; data += 8) state = _mm_crc32_u64(state, load64(data));
  auto narrow = static_cast<std::uint32_t>(state);
  for (; data < end; ++data) narrow = _mm_crc32_u8(narrow, *data);
  return narrow;
}

// The bytes as one long polynomial, 256 at a time: carry-less products move what was read so far
// past the next 256 (the same paper's folding, sixteen lanes of 128 bits). What is left at the end
// stands for all that came before. Up to here the other way is as fast.
constexpr std::size_t kWideBytesMin = 1024;

__attribute__((target("avx512f,vpclmulqdq"))) inline __m512i fold(__m512i sum, __m512i factors,
                                                                  const unsigned char* next) {
  const __m512i low = _mm512_clmulepi64_epi128(sum, factors, 0x00);
  const __m512i high = _mm512_clmulepi64_epi128(sum, factors, 0x11);
  return _mm512_ternarylogic_epi64(low, high, _mm512_loadu_si512(next), 0x96);  // exclusive or
}

__attribute__((target("avx512f,vpclmulqdq"))) std::uint32_t update_wide(std::uint32_t crc,
                                                                        const unsigned char* data,
                                                                        std::size_t bytes) {
  constexpr std::size_t kStride = 256;
  if (bytes < kWideBytesMin) return update_sse42(crc, data, bytes);
  // The lower half of a lane is 64 powers further from the end than the upper; -33 as above.
  constexpr std::uint32_t lower = x_power(8 * kStride + 64 - 33);
  constexpr std::uint32_t upper = x_power(8 * kStride - 33);
  const __m512i factors = _mm512_set4_epi64(upper, lower, upper, lower);
  __m512i sums[4];
  for (int i = 0; i < 4; ++i) sums[i] = _mm512_loadu_si512(data + 64 * i);
  sums[0] =
      _mm512_xor_si512(sums[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(crc))));
  for (data += kStride, bytes -= kStride; bytes >= kStride; data += kStride, bytes -= kStride) {
    for (int i = 0; i < 4; ++i) sums[i] = fold(sums[i], factors, data + 64 * i);
  }
  alignas(64) unsigned char rest[kStride];
  for (int i = 0; i < 4; ++i) _mm512_store_si512(rest + 64 * i, sums[i]);
  return update_sse42(update_sse42(0, rest, kStride), data, bytes);
}

#elif defined(__ARM_FEATURE_CRC32)

std::uint32_t update_arm(std::uint32_t crc, const unsigned char* data, std::size_t bytes) {
  for (; bytes >= 8; bytes -= 8, data += 8) crc = __crc32cd(crc, load64(data));
  for (; bytes > 0; --bytes, ++data) crc = __crc32cb(crc, *data);
  return crc;
}

#endif

}  // namespace

std::vector<Crc32cUpdate> crc32c_updates() {
  std::vector<Crc32cUpdate> updates{crc32c_update_portable};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul")) {
    updates.push_back(update_sse42);
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
    if (wide) updates.push_back(update_wide);
  }
#elif defined(__ARM_FEATURE_CRC32)
  updates.push_back(update_arm);
#endif
  return updates;
}

std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t seed) {
  static const Crc32cUpdate update = crc32c_updates().back();
  return ~update(~seed, static_cast<const unsigned char*>(data), bytes);
}

}  // namespace syncline::kernels
