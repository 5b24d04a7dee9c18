// Output: what ranks and servers print, on the screen and in log files.
#pragma once

#include <deque>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace syncline::tools {

struct OutputOptions {
  std::vector<std::string> hosts;  // of each rank, then of each server
  int servers = 0;
  bool color = false;
  bool prefix = true;   // "[rank 3 host-b] " before each line of stdout; stderr has it always
  bool screen = true;   // false: log files only
  std::string log_dir;  // "" = no log files; else <dir>/rank-3.stdout.log, server-1.stderr.log, ...
};

// Confined. Processes go by number, servers behind the ranks. Lines are written whole; a process's
// lines keep their order within a stream.
class Output {
 public:
  static constexpr std::size_t kTailLines = 20;

  // Creates the log folder and files. Errors: kFailedPrecondition with the path.
  static Result<std::unique_ptr<Output>> open(OutputOptions options);

  void line(int rank, int stream, std::string_view text);
  // Writes to the screen what has gathered. False once the reader of stdout has gone.
  bool flush();
  // The last lines of the rank's stderr.
  const std::deque<std::string>& tail(int rank) const {
    return tails_[static_cast<std::size_t>(rank)];
  }

 private:
  explicit Output(OutputOptions options);

  OutputOptions options_;
  std::vector<std::string> prefixes_;
  std::vector<std::deque<std::string>> tails_;
  std::vector<std::ofstream> logs_;  // 2 * rank + stream - 1
  std::string pending_[2];           // for stdout and stderr
  bool open_ = true;                 // somebody reads stdout
};

// Writes all of `text`, retrying; false on error.
bool write_all(int fd, std::string_view text);

}  // namespace syncline::tools
