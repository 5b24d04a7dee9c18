#include "wire/envelope.h"

#include <cstring>

namespace syncline::wire {

FingerprintBytes pack(const Envelope& envelope) {
  FingerprintBytes bytes{};
  bytes[0] = std::byte{kEnvelopeKind};
  bytes[1] = static_cast<std::byte>(envelope.dtype);
  std::memcpy(bytes.data() + 4, &envelope.tag, sizeof envelope.tag);
  std::memcpy(bytes.data() + 8, &envelope.count, sizeof envelope.count);
  return bytes;
}

Result<Envelope> unpack_envelope(const FingerprintBytes& bytes) {
  Envelope envelope;
  std::memcpy(&envelope.tag, bytes.data() + 4, sizeof envelope.tag);
  std::memcpy(&envelope.count, bytes.data() + 8, sizeof envelope.count);
  envelope.dtype = static_cast<DType>(bytes[1]);
  const bool kind_valid = bytes[0] == std::byte{kEnvelopeKind};
  const bool zeros = bytes[2] == std::byte{0} && bytes[3] == std::byte{0};
  if (!kind_valid || !zeros || static_cast<int>(envelope.dtype) >= kDTypeCount ||
      envelope.tag < 0) {
    return Status(Code::kCorrupt, "a message with an envelope that cannot be right");
  }
  return envelope;
}

std::string describe(const Envelope& envelope) {
  return std::to_string(envelope.count) + " " + to_string(envelope.dtype) +
         (envelope.count == 1 ? " element" : " elements");
}

}  // namespace syncline::wire
