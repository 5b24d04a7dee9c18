// Where a flight record lies, so that it survives its process: a memory file of the launcher's, or
// a file in a folder of this user's, which goes away when the rank leaves in order.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/env.h"
#include "base/result.h"

namespace syncline::flight {

// Memory of `bytes` bytes, present before anybody touches it, so that no page fault falls into an
// operation.
struct Memory {
  std::shared_ptr<std::byte> bytes;
  std::string file;  // remove_live_file() when the rank leaves; "" if it has no name
};

// Dies with the process.
Result<Memory> private_memory(std::size_t bytes);
// The launcher's memory file. kExhausted when a session of this process uses it already,
// kInvalidArgument when the descriptor is something else, which stays as it is.
Result<Memory> inherited_memory(int fd, std::size_t bytes);
// A new file FOLDER/JOB/rank-R.flight, in place of an older one. It is also removed by exit(), so
// that programs which never destroy their session leave nothing.
Result<Memory> file_memory(const std::string& folder, const std::string& job, int rank,
                           std::size_t bytes);
// Removes the file, and its folders if they are empty now. Idempotent.
void remove_live_file(const std::string& file);

// Folders, from SYNCLINE_FLIGHT_DIR: of live records (default /dev/shm/syncline-UID) and of dumps
// (default $TMPDIR or /tmp, /syncline-UID).
std::string live_folder(const EnvLookup& lookup);
std::string dump_folder(const EnvLookup& lookup);
// A job's name as part of a path.
std::string folder_name(const std::string& job);

// Makes the folder and those above it. In a place like /tmp, which belongs to everybody, it must be
// this user's, and others must not be able to write to it.
Status make_own_folder(const std::string& folder);

}  // namespace syncline::flight
