#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "syncline/data/idx.h"
#include "syncline/status.h"

namespace syncline::data {
namespace {

std::vector<std::uint8_t> encode(const IdxArray& array) {
  std::vector<std::uint8_t> bytes = {0, 0, static_cast<std::uint8_t>(array.type),
                                     static_cast<std::uint8_t>(array.dims.size())};
  for (const std::uint32_t dim : array.dims) {
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::uint8_t>(dim >> shift));
  }
  const std::size_t width = size_of(array.type);
  for (std::size_t i = 0; i < array.data.size(); i += width) {
    // Little-endian in memory (see base/bytes.h), big-endian in the file.
    for (std::size_t k = width; k-- > 0;) bytes.push_back(array.data[i + k]);
  }
  return bytes;
}

bool ends_in_gz(const std::string& path) {
  return path.size() > 3 && path.compare(path.size() - 3, 3, ".gz") == 0;
}

bool write_all(gzFile file, const std::vector<std::uint8_t>& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const auto part = static_cast<unsigned>(std::min<std::size_t>(bytes.size() - done, INT_MAX));
    if (gzwrite(file, bytes.data() + done, part) != static_cast<int>(part)) return false;
    done += part;
  }
  return true;
}

}  // namespace

void write_idx(const std::string& path, const IdxArray& array) {
  std::uint64_t expected = size_of(array.type);
  for (const std::uint32_t dim : array.dims) expected *= dim;
  if (array.dims.empty() || array.dims.size() > 255 || expected != array.data.size()) {
    throw Error(Status(Code::kInvalidArgument, "idx: " + path + ": dimensions and data disagree; " +
                                                   std::to_string(expected) +
                                                   " bytes are needed, there are " +
                                                   std::to_string(array.data.size())));
  }
  errno = 0;
  gzFile file = gzopen(path.c_str(), ends_in_gz(path) ? "wb" : "wbT");
  const bool written = file != nullptr && write_all(file, encode(array));
  const bool closed = file != nullptr && gzclose(file) == Z_OK;
  if (!written || !closed) {
    throw Error(Status(Code::kInvalidArgument, "idx: " + path +
                                                   ": cannot write: " + std::strerror(errno) +
                                                   "; check path, permissions and free space"));
  }
}

}  // namespace syncline::data
