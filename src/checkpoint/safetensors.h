// Safetensors: named tensors and strings in one file, as the Python library of that name has them
// (huggingface.co/docs/safetensors, "Format"). Pure.
//
//   u64     N, the length of what follows, at most 100 MB
//   N       JSON: {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [BEGIN, END]}, ...,
//           "__metadata__": {"KEY": "STRING", ...}}, padded with spaces to a multiple of 8
//   rest    the tensors' bytes, little-endian, without gaps; offsets count from here
//
// Ours carry metadata "crc32c": eight hexadecimal digits, the CRC32C of the whole file with these
// digits taken as 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "syncline/types.h"

namespace syncline::checkpoint {

inline constexpr std::uint64_t kHeaderBytesMax = 100'000'000;
inline constexpr std::size_t kChecksumDigits = 8;

struct StoredTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;  // from the data's first byte
  std::uint64_t bytes = 0;
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
  std::uint64_t data_begin = 0;  // in the file
  // In the file; none: the file has no checksum.
  std::optional<std::uint64_t> checksum_at;
};

// Places the tensors one behind the other (their `begin` and `bytes` do not matter) and adds room
// for the checksum. kInvalidArgument: two tensors of one name.
struct EncodedHeader {
  SafetensorsHeader header;
  std::vector<std::byte> bytes;
};
Result<EncodedHeader> encode_safetensors(std::vector<StoredTensor> tensors,
                                         std::map<std::string, std::string> metadata);

// `head`: the file's first bytes, at least 8 + N. kCorrupt says what is wrong.
Result<SafetensorsHeader> decode_safetensors(std::span<const std::byte> head,
                                             std::uint64_t file_bytes);

}  // namespace syncline::checkpoint
