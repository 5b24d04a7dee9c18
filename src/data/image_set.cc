#include <unistd.h>

#include <algorithm>
#include <utility>

#include "syncline/data/idx.h"
#include "syncline/status.h"

namespace syncline::data {
namespace {

Status mismatch(const std::string& path, const std::string& what) {
  return Status(Code::kInvalidArgument, "idx: " + path + ": byte 0: " + what);
}

// `name` in `folder`, compressed or not.
std::string find(const std::string& folder, const std::string& name) {
  const std::string plain = folder + "/" + name;
  return ::access(plain.c_str(), F_OK) == 0 ? plain : plain + ".gz";
}

}  // namespace

ImageSet read_image_set(const std::string& images_path, const std::string& labels_path) {
  IdxArray images = read_idx(images_path);
  IdxArray labels = read_idx(labels_path);
  if (images.type != IdxType::kU8 || images.dims.size() != 3) {
    throw Error(mismatch(images_path,
                         "not images (u8, count x rows x columns); give the "
                         "...-images-idx3-ubyte file"));
  }
  if (labels.type != IdxType::kU8 || labels.dims.size() != 1) {
    throw Error(
        mismatch(labels_path, "not labels (u8, count); give the ...-labels-idx1-ubyte file"));
  }
  if (images.dims[0] != labels.dims[0]) {
    throw Error(mismatch(labels_path, std::to_string(labels.dims[0]) + " labels for " +
                                          std::to_string(images.dims[0]) + " images of " +
                                          images_path + "; take both files of one split"));
  }
  ImageSet set;
  set.count = images.dims[0];
  set.rows = images.dims[1];
  set.columns = images.dims[2];
  set.pixels = std::move(images.data);
  set.labels = std::move(labels.data);
  for (const std::uint8_t label : set.labels) {
    set.classes = std::max<std::uint32_t>(set.classes, label + 1u);
  }
  return set;
}

ImageSet read_mnist(const std::string& folder, const std::string& split) {
  return read_image_set(find(folder, split + "-images-idx3-ubyte"),
                        find(folder, split + "-labels-idx1-ubyte"));
}

// FNV-1a over 64 bits; a fingerprint, no protection against intent.
std::uint64_t ImageSet::digest() const {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](const std::vector<std::uint8_t>& bytes) {
    for (const std::uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  };
  add(pixels);
  add(labels);
  return hash == 0 ? 1 : hash;
}

}  // namespace syncline::data
