// Messages between engines and members: what decodes, encodes to the same bytes.
#include <algorithm>

#include "collective/aggregator.h"
#include "tests/fuzz/fuzz_target.h"
#include "wire/envelope.h"
#include "wire/membership_messages.h"
#include "wire/messages.h"

using namespace syncline;

namespace {

void require_inverse(const std::vector<std::byte>& again, std::span<const std::byte> bytes) {
  fuzz::require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()),
                "decode and encode are inverse");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = fuzz::bytes_of(data + 1, size - 1);
  if (wire::FingerprintBytes envelope{}; bytes.size() == envelope.size()) {
    std::copy(bytes.begin(), bytes.end(), envelope.begin());
    if (const auto message = wire::unpack_envelope(envelope); message.ok())
      fuzz::require(wire::pack(message.value()) == envelope, "unpack and pack are inverse");
  }
  switch (data[0] % 7) {
    case 0:
      if (auto message = wire::decode_abort(bytes); message.ok())
        require_inverse(wire::encode(message.value()), bytes);
      break;
    case 1:
      if (auto message = wire::decode_notify(bytes); message.ok())
        require_inverse(wire::encode(message.value()), bytes);
      break;
    case 2:
      if (auto member = wire::decode_join(bytes); member.ok())
        require_inverse(wire::encode_join(member.value()), bytes);
      break;
    case 3:
      if (auto view = wire::decode_table(bytes); view.ok())
        require_inverse(wire::encode_table(view.value()), bytes);
      break;
    case 4:
      if (auto text = wire::decode_waiting(bytes); text.ok())
        require_inverse(wire::encode_waiting(text.value()), bytes);
      break;
    case 5:
      if (auto announced = collective::decode_announcement(bytes); announced.ok())
        require_inverse(collective::encode(announced.value()), bytes);
      break;
    default:
      if (auto refusal = wire::decode_refuse(bytes); refusal.ok())
        require_inverse(wire::encode_refuse(refusal.value()), bytes);
      break;
  }
  return 0;
}
