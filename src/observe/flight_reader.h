// Reads flight records (docs/formats/flight-record.md). The bytes may come from anywhere: sizes are
// checked before anything else, nothing is allocated beyond a small multiple of the input, records
// that do not check are counted and skipped.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/flight_format.h"
#include "base/result.h"

namespace syncline::observe {

struct FlightEvent {
  flight::Record record;
  std::string text;  // of the text records behind it
};

struct FlightDump {
  std::string source;  // file, for messages
  flight::Header header;
  std::string job;
  std::string host;
  std::vector<FlightEvent> events;  // by time; no text records
  std::size_t torn = 0;             // records that were being written
  bool writer_gone = false;         // set by the caller: no dump, and its process does not exist

  // On the host's monotonic clock, and in ns since 1970.
  Nanos mono(std::uint64_t ticks) const;
  Nanos wall(Nanos mono) const;
  // When the image was taken; of a record without a dump, its process's last sign of life.
  Nanos taken() const;
};

// kCorrupt with one line that says what is wrong.
Result<FlightDump> parse_flight(std::span<const std::byte> bytes, const std::string& source);
Result<FlightDump> read_flight(const std::string& file);

}  // namespace syncline::observe
