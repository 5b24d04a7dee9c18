#include "checkpoint/tensor_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "kernels/crc32c.h"

namespace syncline::checkpoint {
namespace {

std::string part_of(const std::string& path) { return path + ".part"; }

Status file_error(const std::string& path, const std::string& what, int error) {
  const bool room = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return Status(room ? Code::kExhausted : Code::kInvalidArgument,
                path + ": " + what + ": " + std::strerror(error));
}

// The file's checksum: its own digits are taken as 0.
std::uint32_t checksum_of(const std::byte* file, std::size_t bytes, std::uint64_t digits_at) {
  const auto before = static_cast<std::size_t>(digits_at);
  std::uint32_t crc = kernels::crc32c(file, before);
  crc = kernels::crc32c(std::string(kChecksumDigits, '0').data(), kChecksumDigits, crc);
  const std::size_t after = before + kChecksumDigits;
  return kernels::crc32c(file + after, bytes - after, crc);
}

std::string digits_of(std::uint32_t crc) {
  char text[kChecksumDigits + 1];
  std::snprintf(text, sizeof text, "%08x", crc);
  return text;
}

int sync_folder(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  return error;
}

struct Mapping {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
};

// 0 or an errno value. No bytes: no mapping.
int map_file(int fd, Mapping& mapping) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return errno;
  if (!S_ISREG(info.st_mode)) return EISDIR;
  mapping.bytes = static_cast<std::size_t>(info.st_size);
  if (mapping.bytes == 0) return 0;
  void* const at = ::mmap(nullptr, mapping.bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return errno;
  mapping.data = static_cast<const std::byte*>(at);
  return 0;
}

void unmap(const Mapping& mapping) {
  if (mapping.data != nullptr) ::munmap(const_cast<std::byte*>(mapping.data), mapping.bytes);
}

}  // namespace

Result<std::unique_ptr<TensorFileWriter>> TensorFileWriter::create(
    const std::string& path, std::vector<StoredTensor> tensors,
    std::map<std::string, std::string> metadata) {
  auto encoded = encode_safetensors(std::move(tensors), std::move(metadata));
  if (!encoded.ok())
    return Status(encoded.status().code(), path + ": " + encoded.status().message());
  std::error_code error;
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) return file_error(path, "cannot make its folder", error.value());
  if (std::filesystem::is_directory(path, error)) return file_error(path, "cannot write", EISDIR);
  const int fd = ::open(part_of(path).c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return file_error(path, "cannot write", errno);
  std::unique_ptr<TensorFileWriter> writer(
      new TensorFileWriter(path, fd, std::move(encoded->header)));
  const Status put = writer->put(0, encoded->bytes);
  if (!put.ok()) return put;
  return writer;
}

TensorFileWriter::~TensorFileWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(part_of(path_).c_str());
}

Status TensorFileWriter::failed(const std::string& what) const {
  return file_error(path_, what, errno);
}

Status TensorFileWriter::put(std::uint64_t at, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed("cannot write");
    at += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Status TensorFileWriter::write(std::size_t tensor, std::uint64_t offset,
                               std::span<const std::byte> bytes) {
  const StoredTensor& to = header_.tensors[tensor];
  if (offset > to.bytes || bytes.size() > to.bytes - offset) {
    return Status(Code::kInternal, path_ + ": bytes beyond tensor '" + to.name + "'");
  }
  return put(header_.data_begin + to.begin + offset, bytes);
}

Status TensorFileWriter::commit() {
  std::uint64_t end = header_.data_begin;
  if (!header_.tensors.empty()) {
    end += header_.tensors.back().begin + header_.tensors.back().bytes;
  }
  if (::ftruncate(fd_, static_cast<off_t>(end)) != 0) return failed("cannot write");
  Mapping file;
  const int unmapped = map_file(fd_, file);
  if (unmapped != 0) return file_error(path_, "cannot read what was written", unmapped);
  const std::uint32_t crc = checksum_of(file.data, file.bytes, *header_.checksum_at);
  unmap(file);
  const std::string digits = digits_of(crc);
  const Status put_digits =
      put(*header_.checksum_at, std::as_bytes(std::span(digits.data(), digits.size())));
  if (!put_digits.ok()) return put_digits;
  if (::fsync(fd_) != 0) return failed("cannot write");
  if (::rename(part_of(path_).c_str(), path_.c_str()) != 0) return failed("cannot rename");
  ::close(std::exchange(fd_, -1));
  const int unsynced = sync_folder(path_);
  return unsynced == 0 ? Status() : file_error(path_, "cannot sync its folder", unsynced);
}

Result<std::unique_ptr<TensorFileReader>> TensorFileReader::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return file_error(path, "cannot read", errno);
  Mapping file;
  const int error = map_file(fd, file);
  ::close(fd);
  if (error != 0) return file_error(path, "cannot read", error);
  std::unique_ptr<TensorFileReader> reader(new TensorFileReader);
  reader->memory_ = file.data;
  reader->size_ = file.bytes;
  auto header = decode_safetensors({file.data, file.bytes}, file.bytes);
  if (!header.ok()) return Status(header.status().code(), path + ": " + header.status().message());
  reader->header_ = std::move(header).value();
  for (const StoredTensor& tensor : reader->header_.tensors) {
    reader->by_name_.emplace(tensor.name, reader->by_name_.size());
  }
  if (!reader->header_.checksum_at.has_value()) return reader;
  const std::string digits =
      digits_of(checksum_of(file.data, file.bytes, *reader->header_.checksum_at));
  if (digits == reader->header_.metadata.at("crc32c")) return reader;
  return Status(Code::kCorrupt, path + ": the checksum differs: the file is damaged");
}

TensorFileReader::~TensorFileReader() { unmap({memory_, size_}); }

const StoredTensor* TensorFileReader::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &header_.tensors[found->second];
}

std::span<const std::byte> TensorFileReader::bytes(const StoredTensor& tensor) const {
  return {memory_ + header_.data_begin + tensor.begin, static_cast<std::size_t>(tensor.bytes)};
}

}  // namespace syncline::checkpoint
