// Frame headers: an accepted header encodes to the bytes it came from.
#include <cstring>

#include "kernels/crc32c.h"
#include "tests/fuzz/fuzz_target.h"
#include "wire/header.h"

using namespace syncline;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 17) return 0;
  const wire::Expectation expected{1, 2};
  // The first byte decides what is forged to fit, so that inputs get past the checksum.
  const bool forge = (data[0] & 1) != 0;
  std::byte bytes[wire::kHeaderBytes] = {};
  std::memcpy(bytes, data + 1, std::min(size - 1, sizeof bytes));
  if (forge) {
    const std::uint32_t crc = kernels::crc32c(bytes, wire::kHeaderBytes - 4);
    std::memcpy(bytes + wire::kHeaderBytes - 4, &crc, 4);
  }
  wire::Header header;
  const wire::Verdict verdict = wire::decode(bytes, expected, header);
  if (verdict != wire::Verdict::kOk) {
    fuzz::require(!wire::explain(verdict, bytes, expected).empty(), "a refusal has a sentence");
    return 0;
  }
  fuzz::require(header.length <= wire::kFrameBytesMax, "accepted lengths are bounded");
  std::byte again[wire::kHeaderBytes];
  wire::encode(header, again);
  fuzz::require(std::memcmp(bytes, again, sizeof bytes) == 0, "decode and encode are inverse");
  return 0;
}
