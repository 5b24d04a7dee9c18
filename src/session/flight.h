// The flight record of one rank: where it lies, when it is dumped, when it goes away.
#pragma once

#include <memory>
#include <string>

#include "base/env.h"
#include "base/flight_recorder.h"

namespace syncline::session {

// Confined to the holder of the engine's baton, and to the session once the engine has stopped.
class FlightLog {
 public:
  enum class Place {
    kProcess,  // a rank that is this process: its record survives it
    kThread,   // one of several ranks of this process; dumped to a folder that was asked for only
  };

  // Null with SYNCLINE_FLIGHT=off. Never fails: the record then lies in private memory, and the log
  // says why.
  static std::shared_ptr<FlightLog> open(Place place, const flight::Identity& identity,
                                         const EnvLookup& lookup);
  ~FlightLog();
  FlightLog(const FlightLog&) = delete;
  FlightLog& operator=(const FlightLog&) = delete;

  const std::shared_ptr<flight::FlightRecorder>& recorder() const { return recorder_; }
  // Writes the dump that an operation's failure or SIGUSR2 has asked for, if one has.
  void dump_if_wanted();
  // The rank has left in order: its record is of no more use.
  void leave();

 private:
  FlightLog() = default;

  int rank_ = 0;
  std::shared_ptr<flight::FlightRecorder> recorder_;
  std::string live_file_;
  std::string folder_;  // of dumps; "" = none are written
  unsigned requests_seen_ = 0;
  bool pruned_ = false;
};

}  // namespace syncline::session
