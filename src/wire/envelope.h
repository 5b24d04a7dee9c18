// Frames of send and recv: data frames with a flag of their own. Byte-exact: docs/formats/wire.md,
// "Messages". Pure.
//
// The 16 bytes that are an operation's fingerprint elsewhere are the message's envelope: kind u8
// (kEnvelopeKind), dtype u8, zero u16, tag i32, count u64; little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "wire/fingerprint.h"

namespace syncline::wire {

inline constexpr std::uint16_t kMessageFlag = 0x0001;  // of FrameHeader::flags
// In FrameHeader::op, so that no message passes for a frame of a numbered operation; the rest is
// the sender's number of the message.
inline constexpr std::uint64_t kMessageOp = std::uint64_t{1} << 63;
inline constexpr std::uint8_t kEnvelopeKind = 0x40;

inline constexpr std::uint32_t kAtOnce = 1;  // `segment` of kAnnounce: kBytes follow unasked

// In FrameHeader::step.
enum class MessageStep : std::uint32_t {
  kEager = 1,     // sender: envelope and the whole message
  kAnnounce = 2,  // sender: envelope; the message waits at the sender, or follows (`segment` is 1)
  kClear = 3,     // receiver: a receive is posted for the announced message
  kBytes = 4,     // sender: the next bytes of a cleared message
  kCredit = 5,    // receiver: `segment` bytes of eager messages have found their receives
  kRefuse = 6,  // receiver: the announced message will not be taken; `segment` is a MessageRefusal
  kWithdraw = 7,  // sender: gives up an announced or cleared message
  kAtOnceCredit =
      8,  // receiver: `segment` bytes of messages sent at once have found their receives
};

enum class MessageRefusal : std::uint32_t {
  kDoesNotFit = 1,  // the envelope is what the receive has room for
  kNoGroup = 2,     // the receiver does not have the communicator any more
};

struct Envelope {
  DType dtype = DType::kF32;
  std::int32_t tag = 0;
  std::uint64_t count = 0;  // elements

  bool operator==(const Envelope&) const = default;
};

FingerprintBytes pack(const Envelope& envelope);
// kCorrupt when it is none, or of a type or tag that does not exist.
Result<Envelope> unpack_envelope(const FingerprintBytes& bytes);

// "8 f32 elements".
std::string describe(const Envelope& envelope);

}  // namespace syncline::wire
