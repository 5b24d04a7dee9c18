// Compares the flight records of a job's ranks: how far each group got together, and which rank is
// to blame. Pure.
#pragma once

#include <string>
#include <vector>

#include "observe/flight_ranks.h"

namespace syncline::observe {

// How far the ranks of one communicator got.
struct GroupProgress {
  std::uint32_t comm = 0;
  int size = 0;
  int seen = 0;                   // ranks whose record knows the group
  std::uint64_t last_common = 0;  // all of those have called it
  std::uint64_t last_called = 0;  // one of them has
  std::string last_common_label;
};

struct FlightVerdict {
  // killed, mismatch, stopped, not_called, no_record, lost, waits, failed, nothing
  std::string cause = "nothing";
  std::vector<int> culprits;
  std::string text;  // one sentence
  std::vector<std::string> evidence;
  std::string advice;
};

std::vector<GroupProgress> compare_groups(const std::vector<FlightRank>& ranks);
// The first of the causes above that holds.
FlightVerdict judge(const std::vector<FlightRank>& ranks);
// Ranks of the job of which there is no record.
std::vector<int> missing_ranks(const std::vector<FlightRank>& ranks);

// "rank 3", "ranks 0-2, 5"
std::string ranks_text(const std::vector<int>& ranks);

}  // namespace syncline::observe
