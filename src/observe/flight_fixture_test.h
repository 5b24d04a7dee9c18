// Flight records made by the recorder itself, for the tests of what reads them.
#pragma once

#include <bit>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/flight_memory.h"
#include "base/flight_recorder.h"
#include "observe/flight_verdict.h"
#include "wire/fingerprint.h"

namespace syncline::observe {

inline flight::FingerprintBytes all_reduce_of(std::uint64_t count) {
  wire::Operation what;
  what.kind = Collective::kAllReduce;
  what.count = count;
  return wire::pack(what);
}

// One rank's recorder. Times of images are set by hand: `age` is how long ago the recorder started.
struct RecordedRank {
  explicit RecordedRank(int rank, int world = 4)
      : memory(flight::private_memory(flight::image_bytes(64, 16)).value().bytes),
        recorder(memory, {rank, world, "job", "host"}, 64, 16),
        group(recorder.group_made(1, static_cast<std::uint32_t>(rank),
                                  static_cast<std::uint32_t>(world))) {}

  void call(std::uint64_t op, bool ends, std::uint64_t count = 100) {
    const auto what = all_reduce_of(count);
    recorder.called(group, op);
    start = recorder.started(1, op, what, "grad");
    if (ends) recorder.done(group, 1, op, what, start, true);
  }
  void waits_for(std::uint64_t op, std::vector<std::uint16_t> ranks) {
    flight::ProgressBody body{start, start, start, static_cast<std::uint16_t>(ranks.size()), {}};
    for (std::size_t i = 0; i < ranks.size() && i < 3; ++i) body.ranks[i] = ranks[i];
    recorder.progress(flight::Kind::kProgress, 1, op, body);
  }
  void fail(std::uint64_t op, Code code, int peer, const std::string& text) {
    recorder.failed(group, 1, op, {all_reduce_of(100), start, peer, 0},
                    static_cast<std::uint8_t>(code), text);
  }

  // What the launcher would dump `age` after the last record.
  FlightDump dump(Nanos age = 5 * kSecond, flight::DumpNote note = {}) {
    if (note.reason == flight::Reason::kNone) note.reason = flight::Reason::kRequest;
    const Nanos now = monotonic_now();
    recorder.clock(now);
    note.dumped_mono = static_cast<std::uint64_t>(now + age);
    note.dumped_wall = static_cast<std::uint64_t>(wall_now() + age);
    auto image = recorder.image();
    std::memcpy(image.data() + offsetof(flight::Header, dump), &note, sizeof note);
    return parse_flight(image, "rank").value();
  }

  std::shared_ptr<std::byte> memory;
  flight::FlightRecorder recorder;
  std::size_t group;
  std::uint64_t start = 0;
};

}  // namespace syncline::observe
