// The 64-byte header in front of every frame between hosts. Byte-exact: docs/formats/wire.md. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace syncline::wire {

inline constexpr std::uint16_t kMagic = 0x4c53;  // "SL" in memory
inline constexpr std::uint8_t kWireVersion = 1;
inline constexpr std::size_t kHeaderBytes = 64;
inline constexpr std::size_t kFingerprintBytes = 16;
inline constexpr std::size_t kPayloadBytesMax = 256 * 1024;
// Of a whole frame: header, fingerprint, payload.
inline constexpr std::size_t kFrameBytesMax = kHeaderBytes + kFingerprintBytes + kPayloadBytesMax;

// 1..3 are transport::FrameType. The values travel: never renumber.
enum class Type : std::uint8_t {
  kData = 1,
  kAbort = 2,
  kNotify = 3,
  kAck = 4,        // nothing but a cumulative acknowledgement
  kHeartbeat = 5,  // a sign of life; acknowledges too
  kGoodbye = 6,    // the last sequenced frame of its sender
  kResume = 7,     // the first frame of a later connection: what its sender has received
  kNack = 8,       // frame number `step` arrived damaged: send it again
  kRailDown = 9,   // rail `step` has ended at the sender
};

// Payload of a resume: the receiver's incarnation u64, received u32, bits u32, then a bitmap of the
// `bits` frames after the next one that is due: bit 0 of byte 0 is frame received + 2.
inline constexpr std::size_t kResumeBytesMin = 16;
inline constexpr std::uint32_t kFramesAheadMax = 8192;  // beyond the last frame received in order
inline constexpr std::size_t kResumeBytesMax = kResumeBytesMin + kFramesAheadMax / 8;

// Types that consume a rail_seq and stay in the sender's store until acknowledged.
constexpr bool is_sequenced(Type type) {
  return type == Type::kData || type == Type::kAbort || type == Type::kNotify ||
         type == Type::kGoodbye;
}

// Signed difference of two frame numbers, modulo 2^32.
constexpr std::int32_t distance(std::uint32_t from, std::uint32_t to) {
  return static_cast<std::int32_t>(to - from);
}

// The low byte of `flags` belongs to the layers above the link and travels as it is.
inline constexpr std::uint16_t kCallerFlags = 0x00ff;
inline constexpr std::uint16_t kFlagFingerprint = 0x0100;  // 16 bytes precede the payload
inline constexpr std::uint16_t kKnownFlags = kCallerFlags | kFlagFingerprint;

struct Header {
  Type type = Type::kData;
  std::uint16_t flags = 0;
  std::uint16_t wire_type =
      0;  // 0: the type that the schedule names; others are reserved for codecs
  std::uint32_t comm = 0;
  std::uint32_t length = 0;  // bytes after the header, fingerprint included
  std::uint64_t view = 0;
  std::uint64_t incarnation = 0;  // the sender's
  std::uint64_t op = 0;
  std::uint32_t step = 0;
  std::uint32_t segment = 0;
  std::uint32_t rail_seq = 0;
  std::uint32_t cum_ack = 0;
  std::uint32_t payload_crc = 0;  // CRC32C of the `length` bytes; 0 if there are none

  friend bool operator==(const Header&, const Header&) = default;
};

// Writes kHeaderBytes, header_crc included.
void encode(const Header& header, std::byte* out);

// Rewrites the acknowledgement of an encoded header and its header_crc.
void patch_ack(std::byte* encoded, std::uint32_t cum_ack);

// What the receiver knows of the sender: fences frames of another life or membership.
struct Expectation {
  std::uint64_t view = 0;
  std::uint64_t incarnation = 0;
};

enum class Verdict : std::uint8_t {
  kOk = 0,
  kBadMagic,
  kBadVersion,
  kBadHeaderCrc,
  kBadType,
  kBadFlags,
  kBadWireType,
  kBadLength,
  kStaleIncarnation,
  kStaleView,  // `out` is valid: a link counts the frame and drops it
};

// Checks kHeaderBytes at `bytes` in the order of Verdict; trusts no field before header_crc fits.
// `out` is written for kOk and kStaleView only.
Verdict decode(const std::byte* bytes, const Expectation& expected, Header& out);

// One sentence for a refusal: what was found, what was expected, what to do next.
std::string explain(Verdict verdict, const std::byte* bytes, const Expectation& expected);

}  // namespace syncline::wire
