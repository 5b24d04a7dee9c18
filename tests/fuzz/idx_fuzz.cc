// IDX files, plain and gzip: never more elements than announced, allowed and there.
#include "data/idx_parse.h"
#include "tests/fuzz/fuzz_target.h"

using namespace syncline;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint64_t kBytesMax = 1 << 20;
  const auto array = data::parse_idx("input", {data, data + size}, kBytesMax);
  if (!array.ok()) {
    fuzz::require(!array.status().message().empty(), "a refusal has a sentence");
    return 0;
  }
  std::size_t bytes = data::size_of(array->type);
  for (const std::uint32_t dim : array->dims) bytes *= dim;
  fuzz::require(array->data.size() == bytes && bytes <= kBytesMax, "as many bytes as announced");
  return 0;
}
