// Payloads of the frames that engines exchange beside data (transport::FrameType::kAbort and
// kNotify). Byte-exact and pure; the decoders take hostile bytes: every length is checked, trailing
// bytes are refused, nothing is allocated beyond kTextBytesMax.
//
//   abort:   code u8, peer i32, origin i32, text (u32 length, bytes)
//   notify:  kind u8, rank i32, incarnation u64, text (u32 length, bytes)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "syncline/status.h"

namespace syncline::wire {

inline constexpr std::size_t kTextBytesMax = 1024;

// "This operation failed at my side": the receiver fails it with the same cause and passes it on.
struct AbortMessage {
  Code code = Code::kInternal;  // never kOk
  std::int32_t peer = -1;       // rank at fault, -1 if none
  std::int32_t origin = -1;     // rank that saw the failure first
  std::string text;             // longer texts are cut

  bool operator==(const AbortMessage&) const = default;
};

enum class NotifyKind : std::uint8_t {
  kPeerLost = 1,       // `rank` (of `incarnation`) is known to be gone; `text` is the evidence
  kStopRequested = 2,  // `rank` was asked to stop (SIGTERM, SIGUSR1)
  // Of the operation that the frame names, in words:
  kNotInIt = 3,   // why `rank` is not in it, and what it called last
  kWaitsToo = 4,  // for whom `rank` waits in it
};

struct NotifyMessage {
  NotifyKind kind = NotifyKind::kPeerLost;
  std::int32_t rank = -1;
  std::uint64_t incarnation = 0;
  std::string text;  // longer texts are cut

  bool operator==(const NotifyMessage&) const = default;
};

std::vector<std::byte> encode(const AbortMessage& message);
std::vector<std::byte> encode(const NotifyMessage& message);

// kCorrupt when the bytes are not exactly one such message.
Result<AbortMessage> decode_abort(std::span<const std::byte> bytes);
Result<NotifyMessage> decode_notify(std::span<const std::byte> bytes);

}  // namespace syncline::wire
