#include "data/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

namespace syncline::data {
namespace {

constexpr std::uint64_t kDeflateRatioMax = 1032;  // a match of 258 bytes takes two bits at least

Status unreadable(const std::string& path, const std::string& why) {
  return Status(Code::kInvalidArgument, path + ": " + why);
}

Result<std::vector<unsigned char>> read_all(int fd, const std::string& path, std::size_t bytes) {
  std::vector<unsigned char> stored(bytes);
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::read(fd, stored.data() + done, bytes - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      const std::string why = got < 0 ? std::strerror(errno) : "it shrank while it was read";
      return unreadable(path, "byte " + std::to_string(done) + ": cannot read: " + why +
                                  "; check the disk or copy the file again");
    }
    done += static_cast<std::size_t>(got);
  }
  return stored;
}

Result<std::vector<unsigned char>> load(const std::string& path, std::uint64_t bytes_max) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return unreadable(path, std::string("byte 0: cannot open: ") + std::strerror(errno) +
                                "; check path and permissions");
  }
  const struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } closer{fd};
  struct stat info = {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return unreadable(path, "byte 0: not a regular file; give the file itself");
  }
  const auto bytes = static_cast<std::uint64_t>(info.st_size);
  if (bytes > bytes_max) {
    return unreadable(path, "byte 0: the file has " + std::to_string(bytes) +
                                " bytes, the limit is " + std::to_string(bytes_max) +
                                "; raise the limit if that is meant");
  }
  return read_all(fd, path, static_cast<std::size_t>(bytes));
}

}  // namespace

Result<std::unique_ptr<ByteSource>> ByteSource::open(const std::string& path,
                                                     std::uint64_t bytes_max) {
  Result<std::vector<unsigned char>> stored = load(path, bytes_max);
  if (!stored.ok()) return stored.status();
  return of_bytes(path, std::move(stored).value());
}

Result<std::unique_ptr<ByteSource>> ByteSource::of_bytes(const std::string& name,
                                                         std::vector<unsigned char> stored) {
  std::unique_ptr<ByteSource> source(new ByteSource(name, std::move(stored)));
  const Status started = source->start();
  if (!started.ok()) return started;
  return source;
}

ByteSource::ByteSource(std::string path, std::vector<unsigned char> stored)
    : path_(std::move(path)), stored_(std::move(stored)) {}

ByteSource::~ByteSource() {
  if (stream_) inflateEnd(stream_.get());
}

bool ByteSource::begins_gzip(std::size_t offset) const {
  return stored_.size() >= offset + 2 && stored_[offset] == 0x1f && stored_[offset + 1] == 0x8b;
}

Status ByteSource::start() {
  if (!begins_gzip(0)) return Status();
  stream_ = std::make_unique<z_stream>();
  stream_->next_in = stored_.data();
  constexpr int kGzipOnly = 16 + MAX_WBITS;
  if (inflateInit2(stream_.get(), kGzipOnly) != Z_OK) {
    stream_.reset();
    return Status(Code::kExhausted, path_ + ": no memory to decompress; free some and try again");
  }
  return Status();
}

std::size_t ByteSource::position() const {
  return stream_ ? static_cast<std::size_t>(stream_->next_in - stored_.data()) : plain_position_;
}

std::uint64_t ByteSource::remaining_max() const {
  const std::uint64_t left = stored_.size() - position();
  // Decompressed bytes of the current block may still sit in zlib's window.
  return stream_ ? (left + 1) * kDeflateRatioMax + 65536 : left;
}

Status ByteSource::corrupt(const std::string& what) const {
  return Status(Code::kCorrupt, path_ + ": byte " + std::to_string(position()) +
                                    (stream_ ? " of the compressed file: " : ": ") + what);
}

// One step of decompression; *produced is 0 only with an error or at the end of the last member.
Status ByteSource::inflate_some(unsigned char* out, std::size_t count, std::size_t* produced) {
  *produced = 0;
  while (*produced == 0) {
    if (ended_) {
      if (!begins_gzip(position())) return Status();
      inflateReset(stream_.get());  // gzip files may be concatenated
      ended_ = false;
    }
    const std::size_t left = stored_.size() - position();
    stream_->avail_in = static_cast<uInt>(std::min<std::size_t>(left, UINT_MAX));
    stream_->next_out = out;
    stream_->avail_out = static_cast<uInt>(std::min<std::size_t>(count, UINT_MAX));
    const uInt asked = stream_->avail_out;
    const int outcome = inflate(stream_.get(), Z_NO_FLUSH);
    *produced = asked - stream_->avail_out;
    if (outcome == Z_STREAM_END) {
      ended_ = true;
    } else if (outcome == Z_BUF_ERROR || (outcome == Z_OK && left == 0 && *produced == 0)) {
      return corrupt("the gzip data is cut short; download or copy the file again");
    } else if (outcome != Z_OK) {
      const std::string why = stream_->msg != nullptr ? stream_->msg : "bad data";
      return corrupt("the gzip data is damaged (" + why + "); download or copy the file again");
    }
  }
  return Status();
}

Status ByteSource::read(void* out, std::size_t count) {
  auto* target = static_cast<unsigned char*>(out);
  if (!stream_) {
    const std::size_t left = stored_.size() - plain_position_;
    if (count > left) {
      plain_position_ = stored_.size();
      return corrupt("the file ends, " + std::to_string(count - left) +
                     " more bytes are needed; download or copy the file again");
    }
    if (count > 0) std::memcpy(target, stored_.data() + plain_position_, count);
    plain_position_ += count;
    return Status();
  }
  while (count > 0) {
    std::size_t produced = 0;
    const Status step = inflate_some(target, count, &produced);
    if (!step.ok()) return step;
    if (produced == 0) {
      return corrupt("the decompressed data ends, " + std::to_string(count) +
                     " more bytes are needed; download or copy the file again");
    }
    target += produced;
    count -= produced;
  }
  return Status();
}

Status ByteSource::expect_end() {
  const char* remedy = "; it is not one IDX array, download or copy the file again";
  if (!stream_) {
    const std::size_t extra = stored_.size() - plain_position_;
    if (extra == 0) return Status();
    return corrupt(std::to_string(extra) + " bytes too many" + remedy);
  }
  unsigned char byte = 0;
  std::size_t produced = 0;
  const Status step = inflate_some(&byte, 1, &produced);  // also verifies the trailing checksum
  if (!step.ok()) return step;
  if (produced != 0) return corrupt(std::string("decompressed bytes too many") + remedy);
  if (position() != stored_.size()) {
    return corrupt(std::to_string(stored_.size() - position()) +
                   " bytes of garbage after the gzip data" + remedy);
  }
  return Status();
}

}  // namespace syncline::data
