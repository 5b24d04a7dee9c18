// FlightFiles: the memory that the ranks of this host keep their flight records in. The agent holds
// it too, so it can write the dump of a rank that was killed, or that hangs.
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/env.h"
#include "base/flight_format.h"
#include "base/result.h"

namespace syncline::tools {

// Confined to the agent's loop. The memory has no name: nothing is left of it when the job is over.
class FlightFiles {
 public:
  ~FlightFiles();

  // `lookup`: variables as the ranks see them.
  void configure(const EnvLookup& lookup);
  // A descriptor to inherit, which stays ours; -1 when recording is off or there is no memory.
  int create(int rank);
  // Writes the dump of a rank that ended badly; lets go of its memory.
  void on_exit(int rank, int code, int signal);
  // Writes the dumps of all ranks that run.
  void dump_all();
  // One line about the dumps written since the last call; "" if there are none.
  std::string take_news();

 private:
  void write(int rank, flight::DumpNote note);

  bool on_ = false;
  std::string folder_;
  std::map<int, int> descriptors_;  // by rank
  std::set<int> written_;
  std::string place_;   // folder of the job's dumps
  std::string failed_;  // why the last dump could not be written
};

// "0-3, 7"
std::string rank_list(const std::set<int>& ranks);

}  // namespace syncline::tools
