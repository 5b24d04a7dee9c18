// Starts one rank as a process in a group of its own.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/run/message.h"

namespace syncline::tools {

struct SpawnSpec {
  std::vector<std::string> program;  // with its arguments; searched in PATH
  Variables variables;               // over the inherited environment
  std::vector<int> inherited;        // descriptors the rank keeps, under the same numbers
  std::vector<int> cores;            // empty = unbound
};

struct Spawned {
  pid_t pid = -1;
  int pidfd = -1;  // readable once the process ended
  int out = -1;    // read ends of its stdout and stderr, non-blocking
  int err = -1;
};

// The child gets /dev/null as stdin, default signal handling, and dies with its parent (SIGKILL).
// Returns after its exec. Errors: kInvalidArgument when the program is missing or not executable,
// else kExhausted. Call from a single-threaded process.
Result<Spawned> spawn(const SpawnSpec& spec);

// An anonymous file with `text`, its offset at 0; close-on-exec.
Result<int> memory_file(const char* name, const std::string& text);

}  // namespace syncline::tools
