// TensorFile: safetensors files that are there whole or not at all.
//
// A writer fills PATH.part and commit() gives it its name: a crash leaves the old file, or the new
// one. One writer for each path at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"

namespace syncline::checkpoint {

// Externally synchronised. Blocks on the disk.
class TensorFileWriter {
 public:
  // Makes missing folders. Tensors' offsets do not matter.
  static Result<std::unique_ptr<TensorFileWriter>> create(
      const std::string& path, std::vector<StoredTensor> tensors,
      std::map<std::string, std::string> metadata);
  // Without commit() nothing stays.
  ~TensorFileWriter();
  TensorFileWriter(const TensorFileWriter&) = delete;
  TensorFileWriter& operator=(const TensorFileWriter&) = delete;

  // `offset`: bytes from the tensor's first; in any order.
  Status write(std::size_t tensor, std::uint64_t offset, std::span<const std::byte> bytes);
  // Checks what was written into the checksum, syncs, renames, syncs the folder.
  Status commit();

 private:
  TensorFileWriter(std::string path, int fd, SafetensorsHeader header)
      : path_(std::move(path)), fd_(fd), header_(std::move(header)) {}
  Status put(std::uint64_t at, std::span<const std::byte> bytes);
  Status failed(const std::string& what) const;

  const std::string path_;
  int fd_;
  SafetensorsHeader header_;
};

// Externally synchronised.
class TensorFileReader {
 public:
  // Reads the whole file once, to check it. kInvalidArgument: there is none, kCorrupt: it does not
  // verify; both name the path.
  static Result<std::unique_ptr<TensorFileReader>> open(const std::string& path);
  ~TensorFileReader();
  TensorFileReader(const TensorFileReader&) = delete;
  TensorFileReader& operator=(const TensorFileReader&) = delete;

  const SafetensorsHeader& header() const { return header_; }
  const StoredTensor* find(const std::string& name) const;  // null: none
  // The tensor's bytes; valid while this lives.
  std::span<const std::byte> bytes(const StoredTensor& tensor) const;

 private:
  TensorFileReader() = default;

  const std::byte* memory_ = nullptr;
  std::size_t size_ = 0;
  SafetensorsHeader header_;
  std::map<std::string, std::size_t> by_name_;
};

}  // namespace syncline::checkpoint
