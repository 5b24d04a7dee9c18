#include "wire/header.h"

#include <cstring>

#include "base/bytes.h"  // asserts a little-endian host
#include "kernels/crc32c.h"

namespace syncline::wire {
namespace {

// Offsets of docs/formats/wire.md.
constexpr std::size_t kAtMagic = 0, kAtVersion = 2, kAtType = 3, kAtFlags = 4, kAtWireType = 6,
                      kAtComm = 8, kAtLength = 12, kAtView = 16, kAtIncarnation = 24, kAtOp = 32,
                      kAtStep = 40, kAtSegment = 44, kAtRailSeq = 48, kAtCumAck = 52,
                      kAtPayloadCrc = 56, kAtHeaderCrc = 60;

template <class T>
void store(std::byte* out, std::size_t at, T value) {
  std::memcpy(out + at, &value, sizeof value);
}

template <class T>
T load(const std::byte* bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes + at, sizeof value);
  return value;
}

bool has_valid_length(const Header& header) {
  const std::size_t prefix = (header.flags & kFlagFingerprint) != 0 ? kFingerprintBytes : 0;
  if (header.length < prefix) return false;
  const std::size_t payload = header.length - prefix;
  switch (header.type) {
    case Type::kAck:
    case Type::kHeartbeat:
    case Type::kGoodbye:
    case Type::kNack:
    case Type::kRailDown:
      return header.length == 0;
    case Type::kResume:
      return header.length >= kResumeBytesMin && header.length <= kResumeBytesMax;
    default:
      return payload <= kPayloadBytesMax;
  }
}

}  // namespace

void encode(const Header& header, std::byte* out) {
  store(out, kAtMagic, kMagic);
  store(out, kAtVersion, kWireVersion);
  store(out, kAtType, header.type);
  store(out, kAtFlags, header.flags);
  store(out, kAtWireType, header.wire_type);
  store(out, kAtComm, header.comm);
  store(out, kAtLength, header.length);
  store(out, kAtView, header.view);
  store(out, kAtIncarnation, header.incarnation);
  store(out, kAtOp, header.op);
  store(out, kAtStep, header.step);
  store(out, kAtSegment, header.segment);
  store(out, kAtRailSeq, header.rail_seq);
  store(out, kAtPayloadCrc, header.payload_crc);
  patch_ack(out, header.cum_ack);
}

void patch_ack(std::byte* encoded, std::uint32_t cum_ack) {
  store(encoded, kAtCumAck, cum_ack);
  store(encoded, kAtHeaderCrc, kernels::crc32c(encoded, kAtHeaderCrc));
}

Verdict decode(const std::byte* bytes, const Expectation& expected, Header& out) {
  if (load<std::uint16_t>(bytes, kAtMagic) != kMagic) return Verdict::kBadMagic;
  if (load<std::uint8_t>(bytes, kAtVersion) != kWireVersion) return Verdict::kBadVersion;
  if (load<std::uint32_t>(bytes, kAtHeaderCrc) != kernels::crc32c(bytes, kAtHeaderCrc)) {
    return Verdict::kBadHeaderCrc;
  }
  Header header;
  header.type = load<Type>(bytes, kAtType);
  if (header.type < Type::kData || header.type > Type::kRailDown) return Verdict::kBadType;
  header.flags = load<std::uint16_t>(bytes, kAtFlags);
  if ((header.flags & ~kKnownFlags) != 0) return Verdict::kBadFlags;
  header.wire_type = load<std::uint16_t>(bytes, kAtWireType);
  if (header.wire_type != 0) return Verdict::kBadWireType;
  header.length = load<std::uint32_t>(bytes, kAtLength);
  if (!has_valid_length(header)) return Verdict::kBadLength;
  header.comm = load<std::uint32_t>(bytes, kAtComm);
  header.view = load<std::uint64_t>(bytes, kAtView);
  header.incarnation = load<std::uint64_t>(bytes, kAtIncarnation);
  header.op = load<std::uint64_t>(bytes, kAtOp);
  header.step = load<std::uint32_t>(bytes, kAtStep);
  header.segment = load<std::uint32_t>(bytes, kAtSegment);
  header.rail_seq = load<std::uint32_t>(bytes, kAtRailSeq);
  header.cum_ack = load<std::uint32_t>(bytes, kAtCumAck);
  header.payload_crc = load<std::uint32_t>(bytes, kAtPayloadCrc);
  if (header.incarnation != expected.incarnation) return Verdict::kStaleIncarnation;
  out = header;
  return header.view == expected.view ? Verdict::kOk : Verdict::kStaleView;
}

std::string explain(Verdict verdict, const std::byte* bytes, const Expectation& expected) {
  const auto number = [](auto value) { return std::to_string(value); };
  switch (verdict) {
    case Verdict::kOk:
      return "the header is valid";
    case Verdict::kBadMagic:
      return "the bytes are not a Syncline frame (magic " +
             number(load<std::uint16_t>(bytes, kAtMagic)) + ", expected " + number(kMagic) +
             "); another program uses this port, or the stream lost its framing";
    case Verdict::kBadVersion:
      return "the peer speaks wire version " + number(load<std::uint8_t>(bytes, kAtVersion)) +
             " and this process version " + number(kWireVersion) +
             "; run the same Syncline release on every rank";
    case Verdict::kBadHeaderCrc:
      return "the header checksum does not fit; bytes were damaged on the way: check the network "
             "card and cable of this path";
    case Verdict::kBadType:
      return "frame type " + number(load<std::uint8_t>(bytes, kAtType)) +
             " is unknown; run the same Syncline release on every rank";
    case Verdict::kBadFlags:
      return "flags " + number(load<std::uint16_t>(bytes, kAtFlags)) +
             " hold unknown bits; run the same Syncline release on every rank";
    case Verdict::kBadWireType:
      return "wire type " + number(load<std::uint16_t>(bytes, kAtWireType)) +
             " is unknown; run the same Syncline release on every rank";
    case Verdict::kBadLength:
      return "length " + number(load<std::uint32_t>(bytes, kAtLength)) +
             " does not fit frame type " + number(load<std::uint8_t>(bytes, kAtType)) +
             " (at most " + number(kPayloadBytesMax + kFingerprintBytes) +
             "); run the same Syncline release on every rank";
    case Verdict::kStaleIncarnation:
      return "the frame belongs to incarnation " +
             number(load<std::uint64_t>(bytes, kAtIncarnation)) + " of the peer, this link to " +
             number(expected.incarnation) + "; an earlier life of that rank still sends";
    case Verdict::kStaleView:
      return "the frame belongs to membership view " + number(load<std::uint64_t>(bytes, kAtView)) +
             ", this rank is in view " + number(expected.view) + "; the frame was dropped";
  }
  return "the header is invalid";
}

}  // namespace syncline::wire
