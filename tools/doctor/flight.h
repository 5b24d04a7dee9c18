// `syncline doctor --dump`: what the flight records of a job say about its end.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "observe/flight_verdict.h"

namespace syncline::tools {

// Records of one job, by rank.
struct FlightSet {
  std::vector<observe::FlightDump> dumps;
  std::vector<observe::FlightRank> ranks;  // point into dumps
  std::vector<std::string> problems;       // one line for each file that is of no use
};

// Reads files and folders; a folder without records stands for the newest folder in it. Without
// names: the folders that `lookup` gives. Of several jobs the newest counts.
FlightSet read_flights(const std::vector<std::string>& names, const EnvLookup& lookup);

std::string flight_text(const FlightSet& set);
// "syncline.flight/1"
std::string flight_json(const FlightSet& set);

// Prints one of them; the exit code: 2 when nothing could be read.
int show_flights(const std::vector<std::string>& names, bool json);

}  // namespace syncline::tools
