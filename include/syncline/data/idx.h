// IDX files (the format of MNIST and Fashion-MNIST), plain or gzip, read whole into memory.
#ifndef SYNCLINE_DATA_IDX_H_
#define SYNCLINE_DATA_IDX_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace syncline {
namespace data {

// Element type; the values are the third byte of the file.
enum class IdxType : std::uint8_t {
  kU8 = 0x08,
  kI8 = 0x09,
  kI16 = 0x0b,
  kI32 = 0x0c,
  kF32 = 0x0d,
  kF64 = 0x0e,
};

std::size_t size_of(IdxType type);

// A dense array, row-major; `data` holds the elements in the machine's byte order.
struct IdxArray {
  IdxType type = IdxType::kU8;
  std::vector<std::uint32_t> dims;
  std::vector<std::uint8_t> data;
};

// Blocks while it reads. Throws Error with one line that names file, byte offset and remedy:
// invalid_argument if the file cannot be read or is larger than bytes_max, corrupt if it is not
// exactly one IDX array. No more is allocated than the file can hold. Format: two zero bytes, type,
// number of dimensions, each dimension as big-endian u32, the elements big-endian
// (http://yann.lecun.com/exdb/mnist, "the IDX file format").
IdxArray read_idx(const std::string& path, std::uint64_t bytes_max = std::uint64_t{4} << 30);

// Writes `array`, compressed if the name ends in ".gz". Throws Error.
void write_idx(const std::string& path, const IdxArray& array);

// Grey images and one label for each.
struct ImageSet {
  std::uint32_t count = 0;
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::uint32_t classes = 0;         // largest label + 1
  std::vector<std::uint8_t> pixels;  // [count, rows, columns]
  std::vector<std::uint8_t> labels;  // [count]
  // A fingerprint of pixels and labels, never 0; for SamplerOptions::dataset_digest.
  std::uint64_t digest() const;
};

// Throws Error as read_idx does, and if the two files do not belong together.
ImageSet read_image_set(const std::string& images_path, const std::string& labels_path);

// The files of one split ("train" or "t10k") in `folder`, by MNIST's names, with or without ".gz".
// Debian's dataset-fashion-mnist installs /usr/share/datasets/fashion-mnist.
ImageSet read_mnist(const std::string& folder, const std::string& split);

}  // namespace data
}  // namespace syncline

#endif  // SYNCLINE_DATA_IDX_H_
