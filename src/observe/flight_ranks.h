// What each rank did last, out of its flight record. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "observe/flight_reader.h"
#include "syncline/status.h"

namespace syncline::observe {

// Times are on the host's monotonic clock, ns.
struct FlightOperation {
  std::uint32_t comm = 0;
  std::uint64_t op = 0;
  std::optional<flight::FingerprintBytes> fingerprint;  // absent: not on record (any more)
  std::string name;                                     // the first 16 bytes
  std::optional<Nanos> start;
  std::optional<Nanos> end;
  Code code = Code::kOk;
  int peer = -1;               // rank at fault
  std::string text;            // of a failure
  std::optional<Nanos> moved;  // last seen to move
  int awaited = 0;             // peers that it was waiting for
  std::vector<int> awaits;     // the first of them

  std::string label() const;  // "#7 all_reduce(f32, 200 elements, sum) 'grad'"
};

// Something that a rank noted about another.
struct FlightPeer {
  flight::Kind kind{};
  int peer = -1;
  Nanos at = 0;
  std::string text;
};

struct FlightGroup {
  std::uint32_t id = 0;
  int size = 0;
  bool removed = false;
  std::uint64_t started = 0;
  std::uint64_t ended = 0;
};

struct FlightRank {
  const FlightDump* dump = nullptr;
  int rank = 0;
  std::map<std::uint32_t, FlightGroup> groups;
  std::map<std::pair<std::uint32_t, std::uint64_t>, FlightOperation> operations;
  std::optional<FlightOperation> enqueued;  // the newest call that had to queue
  std::vector<FlightPeer> peers;            // suspected, lost, verdicts, aborts; by time
  bool left = false;                        // in order

  // Operations that had begun and not ended, oldest first.
  std::vector<const FlightOperation*> pending() const;
  // By time of start or end; null if there is none.
  const FlightOperation* last_started() const;
  const FlightOperation* last_done() const;
  const FlightOperation* first_failed() const;
  const FlightOperation* find(std::uint32_t comm, std::uint64_t op) const;
  // "killed by signal 9", "exit code 3", "stopped", ... or "" while it ran.
  std::string end_text() const;
  bool stopped() const;
  bool killed() const;  // died without leaving, and not because it was asked to end
};

FlightRank summarize(const FlightDump& dump);

}  // namespace syncline::observe
