#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

namespace syncline::checkpoint {
namespace {

using nlohmann::ordered_json;

constexpr const char* kMetadata = "__metadata__";
constexpr const char* kChecksum = "crc32c";
constexpr std::size_t kAlignment = 8;
constexpr std::size_t kShapeMax = 16;
// By the numbers of DType.
constexpr const char* kTypeNames[kDTypeCount] = {"F32", "F64", "F16", "BF16", "I8",
                                                 "U8",  "I16", "I32", "I64",  "BOOL"};

Status bad_file(const std::string& what) { return Status(Code::kCorrupt, "safetensors: " + what); }

std::optional<std::uint64_t> byte_count(const StoredTensor& tensor) {
  std::uint64_t bytes = size_of(tensor.dtype);
  for (const std::uint64_t length : tensor.shape) {
    if (__builtin_mul_overflow(bytes, length, &bytes)) return std::nullopt;
  }
  return bytes;
}

// A name that comes twice would hide a tensor.
std::optional<ordered_json> parse_once(std::span<const std::byte> text) {
  const auto* begin = reinterpret_cast<const char*>(text.data());
  std::set<std::string> names;
  bool twice = false;
  const auto watch = [&](int depth, ordered_json::parse_event_t event, ordered_json& value) {
    if (event == ordered_json::parse_event_t::key && depth == 1) {
      twice = twice || !names.insert(value.get<std::string>()).second;
    }
    return true;
  };
  auto parsed = ordered_json::parse(begin, begin + text.size(), watch, false);
  if (parsed.is_discarded() || !parsed.is_object() || twice) return std::nullopt;
  return parsed;
}

bool is_count(const ordered_json& value) { return value.is_number_unsigned(); }

Result<StoredTensor> tensor_of(const std::string& name, const ordered_json& entry) {
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") ||
      !entry.contains("shape") || !entry.contains("data_offsets")) {
    return bad_file("tensor '" + name + "' is not described as the format has it");
  }
  StoredTensor tensor;
  tensor.name = name;
  const auto& type = entry["dtype"];
  const auto& shape = entry["shape"];
  const auto& offsets = entry["data_offsets"];
  const auto known =
      std::find_if(std::begin(kTypeNames), std::end(kTypeNames), [&](const char* each) {
        return type.is_string() && type.get_ref<const std::string&>() == each;
      });
  if (known == std::end(kTypeNames)) {
    return Status(Code::kUnsupported,
                  "safetensors: tensor '" + name + "' has a type that Syncline does not know");
  }
  tensor.dtype = static_cast<DType>(known - std::begin(kTypeNames));
  const bool plain = shape.is_array() && shape.size() <= kShapeMax &&
                     std::all_of(shape.begin(), shape.end(), is_count) && offsets.is_array() &&
                     offsets.size() == 2 && is_count(offsets[0]) && is_count(offsets[1]);
  if (!plain) return bad_file("tensor '" + name + "' has an impossible shape or offsets");
  tensor.shape = shape.get<std::vector<std::uint64_t>>();
  tensor.begin = offsets[0].get<std::uint64_t>();
  const auto end = offsets[1].get<std::uint64_t>();
  tensor.bytes = end - tensor.begin;
  if (end < tensor.begin || byte_count(tensor) != tensor.bytes) {
    return bad_file("tensor '" + name + "' is not as long as its shape says");
  }
  return tensor;
}

Status read_metadata(const ordered_json& entry, SafetensorsHeader& header) {
  if (!entry.is_object()) return bad_file("the metadata are no object");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) return bad_file("metadata '" + key + "' is no string");
    header.metadata[key] = value.get<std::string>();
  }
  return {};
}

// Where the digits stand; none where they could be elsewhere, as in another string.
std::optional<std::uint64_t> find_checksum(std::span<const std::byte> head,
                                           const SafetensorsHeader& header) {
  const auto digits = header.metadata.find(kChecksum);
  if (digits == header.metadata.end() || digits->second.size() != kChecksumDigits) return {};
  const std::string text = std::string("\"") + kChecksum + "\":\"" + digits->second + "\"";
  const std::string_view all(reinterpret_cast<const char*>(head.data()), head.size());
  const std::size_t at = all.find(text);
  if (at == std::string_view::npos || all.find(text, at + 1) != std::string_view::npos) return {};
  return at + text.size() - 1 - kChecksumDigits;
}

}  // namespace

Result<EncodedHeader> encode_safetensors(std::vector<StoredTensor> tensors,
                                         std::map<std::string, std::string> metadata) {
  EncodedHeader out;
  ordered_json json;
  metadata[kChecksum] = std::string(kChecksumDigits, '0');
  json[kMetadata] = metadata;
  std::uint64_t begin = 0;
  for (StoredTensor& tensor : tensors) {
    if (json.contains(tensor.name)) {
      return Status(Code::kInvalidArgument, "two tensors of the name '" + tensor.name + "'");
    }
    tensor.begin = begin;
    tensor.bytes = byte_count(tensor).value_or(UINT64_MAX);
    if (__builtin_add_overflow(begin, tensor.bytes, &begin)) {
      return Status(Code::kInvalidArgument, "tensor '" + tensor.name + "' is too large for a file");
    }
    json[tensor.name] = {{"dtype", kTypeNames[static_cast<std::size_t>(tensor.dtype)]},
                         {"shape", tensor.shape},
                         {"data_offsets", {tensor.begin, begin}}};
  }
  std::string text;
  try {
    text = json.dump();
  } catch (const ordered_json::exception&) {
    return Status(Code::kInvalidArgument, "names and metadata are UTF-8 in safetensors files");
  }
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  if (text.size() > kHeaderBytesMax) {
    return Status(Code::kUnsupported, "more tensors than a safetensors file describes");
  }
  const std::uint64_t length = text.size();
  out.bytes.resize(sizeof length + text.size());
  std::memcpy(out.bytes.data(), &length, sizeof length);
  std::memcpy(out.bytes.data() + sizeof length, text.data(), text.size());
  out.header.tensors = std::move(tensors);
  out.header.metadata = std::move(metadata);
  out.header.data_begin = out.bytes.size();
  out.header.checksum_at = find_checksum(out.bytes, out.header);
  return out;
}

Result<SafetensorsHeader> decode_safetensors(std::span<const std::byte> head,
                                             std::uint64_t file_bytes) {
  std::uint64_t length = 0;
  if (head.size() < sizeof length) return bad_file("the file is too short");
  std::memcpy(&length, head.data(), sizeof length);
  if (length > kHeaderBytesMax || length > head.size() - sizeof length) {
    return bad_file("the header is longer than the file, or than 100 MB");
  }
  SafetensorsHeader header;
  header.data_begin = sizeof length + length;
  const auto json = parse_once(head.subspan(sizeof length, static_cast<std::size_t>(length)));
  if (!json.has_value()) return bad_file("the header is no JSON object, or names a tensor twice");
  for (const auto& [name, entry] : json->items()) {
    if (name == kMetadata) {
      const Status read = read_metadata(entry, header);
      if (!read.ok()) return read;
      continue;
    }
    auto tensor = tensor_of(name, entry);
    if (!tensor.ok()) return tensor.status();
    header.tensors.push_back(std::move(tensor).value());
  }
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.bytes < b.bytes;
  });
  std::uint64_t next = 0;
  for (const StoredTensor& tensor : header.tensors) {
    if (tensor.begin != next) return bad_file("there is a gap before tensor '" + tensor.name + "'");
    next += tensor.bytes;
  }
  if (file_bytes < header.data_begin || next != file_bytes - header.data_begin) {
    return bad_file("the file has " + std::to_string(file_bytes) + " bytes, its header says " +
                    std::to_string(header.data_begin + next));
  }
  header.checksum_at =
      find_checksum(head.first(static_cast<std::size_t>(header.data_begin)), header);
  if (!header.checksum_at.has_value() && header.metadata.count(kChecksum) > 0) {
    return bad_file("the checksum is not written as Syncline does");
  }
  return header;
}

}  // namespace syncline::checkpoint
