// Host lists, and the frames between launcher and agents.
#include "tests/fuzz/fuzz_target.h"
#include "tools/run/hosts.h"
#include "tools/run/message.h"

using namespace syncline;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text = fuzz::text_of(data + 1, size - 1);
  switch (data[0] % 5) {
    case 0:
    case 1: {
      const auto hosts =
          data[0] % 5 == 0 ? tools::parse_hostfile(text, "hosts") : tools::parse_host_list(text);
      if (!hosts.ok()) break;
      for (const tools::HostSlots& host : hosts.value()) {
        fuzz::require(!host.host.empty() && host.host[0] != '-', "a host is no option for ssh");
        fuzz::require(host.slots >= 1 && host.slots <= tools::kSlotsMax, "slots are bounded");
      }
      break;
    }
    case 2:
      (void)tools::decode_command(text);
      break;
    case 3:
      (void)tools::decode_event(text);
      break;
    default: {
      tools::FrameReader reader;
      for (std::size_t at = 0; at < text.size(); at += 7) {
        if (!reader.feed(text.substr(at, 7), [](bool, std::string_view) {}).ok()) break;
      }
    }
  }
  return 0;
}
