// Safetensors headers: every tensor lies in the file, and what is read can be written again.
#include "checkpoint/safetensors.h"
#include "session/store_file.h"
#include "tests/fuzz/fuzz_target.h"

using namespace syncline;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  const auto header = checkpoint::decode_safetensors(file, size);
  if (!header.ok()) {
    fuzz::require(!header.status().message().empty(), "a refusal has a sentence");
    return 0;
  }
  std::uint64_t end = 0;
  for (const auto& tensor : header->tensors) {
    fuzz::require(tensor.begin == end, "no gaps");
    end += tensor.bytes;
  }
  fuzz::require(header->data_begin + end == size, "all of the file");
  const auto again = checkpoint::encode_safetensors(header->tensors, header->metadata);
  fuzz::require(again.ok(), "can be written");
  const auto description = header->metadata.find(session::kStoreMetadata);
  if (description == header->metadata.end()) return 0;
  const auto contents = session::store_from_json(description->second);
  if (contents.ok()) {
    fuzz::require(session::store_from_json(session::to_json(contents.value())).ok(), "round trip");
  }
  return 0;
}
