// The job's key: 32 secret bytes that every rank proves to know (see docs/formats/handshake.md).
//
// Key file: one line "syncline-key-1 <64 lower-case hex digits>" and a newline, mode 0600, owned by
// the user. The key never appears in arguments, environment variables, logs or messages.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "base/env.h"
#include "base/result.h"

namespace syncline::cluster {

// Immutable value; the bytes are overwritten when a copy dies. The all-zero key stands for "no
// key".
class JobKey {
 public:
  static constexpr std::size_t kBytes = 32;
  using Bytes = std::array<unsigned char, kBytes>;

  JobKey() = default;
  explicit JobKey(const Bytes& bytes) : bytes_(bytes) {}
  JobKey(const JobKey&) = default;
  JobKey& operator=(const JobKey&) = default;
  ~JobKey();

  const Bytes& bytes() const { return bytes_; }
  bool absent() const;  // all zero

  // From the operating system's generator.
  static Result<JobKey> generate();
  // The line of a key file, with or without its newline. The error does not repeat the text.
  static Result<JobKey> parse(const std::string& line);
  // The line of a key file: a secret.
  std::string line() const;

 private:
  Bytes bytes_{};
};

struct LoadedKey {
  JobKey key;          // absent() when no source has one
  std::string source;  // "descriptor 5", "/home/a/.config/syncline/job.key", "none"
};

// Looks at, in this order: the inherited descriptor SYNCLINE_KEY_FD (read to its end once and
// closed; later calls in this process get the same key); the file SYNCLINE_KEY_FILE;
// $HOME/.config/syncline/job.key. A source that is named but unreadable, malformed, not the user's
// own or open to others is an error that says how to mend it; only the last file may be absent.
Result<LoadedKey> load_job_key(const EnvLookup& lookup);

// Where `syncline key create` writes: SYNCLINE_KEY_FILE, else under $HOME.
Result<std::string> default_key_path(const EnvLookup& lookup);

// Writes a new key file (0600, never over an existing file, synced). Creates the last two folders
// of the path with mode 0700 if they are missing.
Status create_key_file(const std::string& path, const JobKey& key);
Result<JobKey> read_key_file(const std::string& path);

// What to say (exit code 3) when other hosts take part and there is no key. `what`: "rank 0 at ...
// is on another host".
Status missing_key_error(const std::string& what);

}  // namespace syncline::cluster
