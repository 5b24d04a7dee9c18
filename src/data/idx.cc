#include "syncline/data/idx.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

#include "data/byte_source.h"
#include "data/idx_parse.h"
#include "syncline/status.h"

namespace syncline::data {
namespace {

bool is_known(std::uint8_t type) {
  return type == 0x08 || type == 0x09 || (type >= 0x0b && type <= 0x0e);
}

std::uint32_t big_endian(const unsigned char* p) {
  return static_cast<std::uint32_t>(p[0]) << 24 | static_cast<std::uint32_t>(p[1]) << 16 |
         static_cast<std::uint32_t>(p[2]) << 8 | p[3];
}

// Turns elements from big-endian to the machine's order.
void swap_elements(IdxArray& array) {
  const std::size_t width = size_of(array.type);
  if (width == 1 || std::endian::native == std::endian::big) return;
  for (std::size_t i = 0; i < array.data.size(); i += width) {
    std::reverse(array.data.begin() + static_cast<std::ptrdiff_t>(i),
                 array.data.begin() + static_cast<std::ptrdiff_t>(i + width));
  }
}

std::string dims_text(const std::vector<std::uint32_t>& dims) {
  std::string text;
  for (const std::uint32_t dim : dims) text += (text.empty() ? "" : " x ") + std::to_string(dim);
  return text;
}

Status read_header(ByteSource& source, IdxArray& array) {
  unsigned char magic[4];
  Status status = source.read(magic, sizeof magic);
  if (!status.ok()) return status;
  if (magic[0] != 0 || magic[1] != 0 || !is_known(magic[2]) || magic[3] == 0) {
    return source.corrupt(
        "the first four bytes are no IDX magic (0, 0, type, dimensions); give an IDX file, plain "
        "or gzip");
  }
  array.type = static_cast<IdxType>(magic[2]);
  array.dims.resize(magic[3]);
  for (std::uint32_t& dim : array.dims) {
    unsigned char bytes[4];
    status = source.read(bytes, sizeof bytes);
    if (!status.ok()) return status;
    dim = big_endian(bytes);
  }
  return Status();
}

// Bytes of the elements, or an error if they are more than can be there or allowed.
Result<std::uint64_t> announced_bytes(const ByteSource& source, const IdxArray& array,
                                      std::uint64_t bytes_max) {
  std::uint64_t bytes = size_of(array.type);
  bool overflow = false;
  for (const std::uint32_t dim : array.dims) {
    overflow = __builtin_mul_overflow(bytes, std::uint64_t{dim}, &bytes) || overflow;
  }
  if (overflow || bytes > source.remaining_max()) {
    return source.corrupt("the header announces " + dims_text(array.dims) +
                          " elements, more than the file can hold; download or copy it again");
  }
  if (bytes > bytes_max) {
    return Status(
        Code::kInvalidArgument,
        source
            .corrupt("the header announces " + dims_text(array.dims) + " elements, the limit is " +
                     std::to_string(bytes_max) + " bytes; raise the limit if that is meant")
            .message());
  }
  return bytes;
}

Result<IdxArray> read_array(ByteSource& source, std::uint64_t bytes_max) {
  IdxArray array;
  Status status = read_header(source, array);
  if (!status.ok()) return status;
  const Result<std::uint64_t> bytes = announced_bytes(source, array, bytes_max);
  if (!bytes.ok()) return bytes.status();
  array.data.resize(static_cast<std::size_t>(bytes.value()));
  status = source.read(array.data.data(), array.data.size());
  if (status.ok()) status = source.expect_end();
  if (!status.ok()) return status;
  swap_elements(array);
  return array;
}

}  // namespace

std::size_t size_of(IdxType type) {
  switch (type) {
    case IdxType::kI16:
      return 2;
    case IdxType::kI32:
    case IdxType::kF32:
      return 4;
    case IdxType::kF64:
      return 8;
    default:
      return 1;
  }
}

Result<IdxArray> parse_idx(const std::string& name, std::vector<unsigned char> stored,
                           std::uint64_t bytes_max) {
  auto source = ByteSource::of_bytes(name, std::move(stored));
  if (!source.ok()) return source.status();
  return read_array(*source.value(), bytes_max);
}

IdxArray read_idx(const std::string& path, std::uint64_t bytes_max) {
  auto source = ByteSource::open(path, bytes_max);
  Result<IdxArray> result =
      source.ok() ? read_array(*source.value(), bytes_max) : Result<IdxArray>(source.status());
  if (!result.ok()) {
    throw Error(Status(result.status().code(), "idx: " + result.status().message()));
  }
  return std::move(result).value();
}

}  // namespace syncline::data
