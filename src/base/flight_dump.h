// Dumps of flight records: FOLDER/JOB/rank-R.flight.
#pragma once

#include <string>
#include <vector>

#include "base/flight_format.h"
#include "base/result.h"

namespace syncline::flight {

// Writes the image with the note and the time in its header; replaces an older dump as a whole.
// The path, or why not. Blocks for the file system. kCorrupt when the image has no header, as of a
// process that never opened a session.
Result<std::string> write_dump(const std::string& folder, std::vector<std::byte> image,
                               DumpNote note);

// The same from a memory file that another process writes or wrote. "" if nobody opened it.
Result<std::string> write_dump(const std::string& folder, int fd, const DumpNote& note);

// Removes the oldest jobs of the folder beyond `jobs_max`; only *.flight files, and only of records
// that no living process writes.
void prune(const std::string& folder, std::size_t jobs_max);

}  // namespace syncline::flight
