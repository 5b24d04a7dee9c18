// Sequential bytes of a file, plain or gzip, with positions for error messages. Private to data/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

struct z_stream_s;  // of zlib

namespace syncline::data {

// confined. Reads the stored file into memory at open, decompresses as it is asked.
class ByteSource {
 public:
  // Blocks while it reads. Refuses what is not a regular file of at most bytes_max bytes.
  static Result<std::unique_ptr<ByteSource>> open(const std::string& path, std::uint64_t bytes_max);
  // The file's content; `name` is for messages.
  static Result<std::unique_ptr<ByteSource>> of_bytes(const std::string& name,
                                                      std::vector<unsigned char> stored);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // Exactly `count` bytes or an error: corrupt if they end before or do not decompress.
  Status read(void* out, std::size_t count);
  // Ok if nothing follows.
  Status expect_end();
  // No more bytes than this can still come, whatever the file claims.
  std::uint64_t remaining_max() const;

  // "FILE: byte N of the (compressed) file: WHAT".
  Status corrupt(const std::string& what) const;

 private:
  ByteSource(std::string path, std::vector<unsigned char> stored);
  Status start();
  std::size_t position() const;
  bool begins_gzip(std::size_t offset) const;
  Status inflate_some(unsigned char* out, std::size_t count, std::size_t* produced);

  std::string path_;
  std::vector<unsigned char> stored_;
  std::size_t plain_position_ = 0;
  std::unique_ptr<z_stream_s> stream_;  // null for a plain file
  bool ended_ = false;                  // the gzip stream is complete
};

}  // namespace syncline::data
