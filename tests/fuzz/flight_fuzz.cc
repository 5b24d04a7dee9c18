// Flight records: whatever the bytes, the reader stays within them and the report is text. The
// input is a file, or records that are forged to pass the checks.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/flight_format.h"
#include "observe/flight_verdict.h"
#include "tests/fuzz/fuzz_target.h"
#include "tools/doctor/flight.h"

using namespace syncline;

namespace {

constexpr std::uint32_t kRing = 16;

// Header and groups from the first bytes, then records.
std::vector<std::byte> forge(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> image(flight::image_bytes(kRing, kRing));
  flight::Header header;
  std::memcpy(header.magic, flight::kMagic, sizeof header.magic);
  header.records = {kRing, kRing};
  header.world_size = 4;
  std::memcpy(&header.clocks, data, std::min(size, sizeof header.clocks));
  std::memcpy(&header.groups, data, std::min(size, 4 * sizeof header.groups[0]));
  header.dump.signal = size > 0 ? data[0] : 0;
  header.dump.process_state = size > 1 ? data[1] : 0;
  header.header_check = flight::header_check(header);
  std::memcpy(image.data(), &header, sizeof header);
  for (std::uint32_t i = 0; i < 2 * kRing && size >= 57; ++i, data += 57, size -= 57) {
    flight::RecordWords words{};
    std::memcpy(words.data(), data, 56);
    const std::uint32_t seq = i % kRing + kRing * (data[56] % 3);
    words.back() = flight::seal(words, seq);
    std::memcpy(image.data() + flight::kHeaderBytes + i * flight::kRecordBytes, words.data(),
                sizeof words);
  }
  return image;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const bool forged = (data[0] & 1) != 0;
  std::vector<std::byte> image;
  if (forged) image = forge(data + 1, size - 1);
  const auto bytes =
      forged ? std::span<const std::byte>(image) : fuzz::bytes_of(data + 1, size - 1);
  auto dump = observe::parse_flight(bytes, "input");
  fuzz::require(!forged || dump.ok(), "a forged record is accepted");
  if (!dump.ok()) {
    const std::string& why = dump.status().message();
    fuzz::require(!why.empty() && why.find('\n') == std::string::npos, "a refusal is one line");
    return 0;
  }
  fuzz::require(dump->events.size() * flight::kRecordBytes <= bytes.size(),
                "no more than is there");
  tools::FlightSet set;
  set.dumps.push_back(std::move(dump).value());
  set.ranks.push_back(observe::summarize(set.dumps.front()));
  fuzz::require(!observe::judge(set.ranks).text.empty(), "always a verdict");
  if ((data[0] & 14) != 0) return 0;  // printing takes ten times as long as all of the above
  const std::string text = tools::flight_text(set);
  fuzz::require(text.find('\x1b') == std::string::npos, "no control characters");
  fuzz::require(!tools::flight_json(set).empty(), "always a report");
  return 0;
}
