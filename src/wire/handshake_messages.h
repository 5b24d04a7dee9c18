// The four fixed-size messages of the handshake (docs/formats/handshake.md). Byte-exact and pure:
// no field announces a length, so hostile bytes can ask for nothing.
//
// The first 12 bytes (magic, version, type, flags) and the sizes of hello and reject are the same
// in every protocol version, so that two versions can tell each other what is wrong.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace syncline::wire {

inline constexpr std::uint16_t kHandshakeVersion = 1;
inline constexpr std::array<char, 8> kHandshakeMagic = {'S', 'Y', 'N', 'C', 'L', 'I', 'N', 'E'};
inline constexpr std::size_t kHelloBytes = 256;
inline constexpr std::size_t kReplyBytes = 192;
inline constexpr std::size_t kRejectBytes = kReplyBytes;  // a dialer reads as many bytes for either
inline constexpr std::size_t kFinishBytes = 64;
inline constexpr std::size_t kTagBytes = 32;
inline constexpr std::size_t kPublicKeyBytes = 32;
inline constexpr std::size_t kRunIdBytes = 64;

using HelloBytes = std::array<std::byte, kHelloBytes>;
using ReplyBytes = std::array<std::byte, kReplyBytes>;
using FinishBytes = std::array<std::byte, kFinishBytes>;
using PublicKey = std::array<unsigned char, kPublicKeyBytes>;

enum class HandshakeType : std::uint8_t { kHello = 1, kReply = 2, kFinish = 3, kReject = 4 };

// What a connection is for.
enum class ConnectionRole : std::uint8_t {
  kRendezvous = 1,  // joining the job at rank 0
  kData = 2,        // a rail of the link between two ranks
  kProbe = 3,       // "are you still there?"; closed after the handshake
  kHeal = 4,        // a later connection of a rail; begins with a resume frame
};

// Protection of what follows the handshake.
enum class DataLevel : std::uint8_t { kHandshake = 1, kMac = 2, kEncrypt = 3 };

enum class RejectCode : std::uint8_t {
  kVersion = 1,    // number: the listener's version
  kWrongKey = 2,   // the hello does not prove the listener's key
  kKeyNeeded = 3,  // dialer without a key, listener with one
  kNoKey = 4,      // dialer with a key, listener without
  kRunId = 5,      // text: the listener's run id
  kWorldSize = 6,  // number: the listener's world size
  kRank = 7,  // number: the listener's rank; the dialer looked for another or has an impossible one
  kIncarnation = 8,  // the process that the dialer looks for is gone
  kView = 9,         // number: the listener's view
  kRole = 10,        // the listener serves other connections
  kLevel = 11,       // number: the listener's data level
  kBusy = 12,        // too many half-open connections; try again
  kMalformed = 13,
};

// What both sides say about themselves; part of hello and reply and bound by their tags.
struct HandshakeIdentity {
  std::uint8_t flags = 0;  // kFlagKeyless
  ConnectionRole role = ConnectionRole::kData;
  DataLevel level = DataLevel::kHandshake;
  std::uint16_t rail = 0;
  std::int32_t rank = -1;
  std::int32_t peer_rank = -1;  // whom the sender takes the other side for
  std::uint32_t world_size = 0;
  std::uint64_t incarnation = 0;
  std::uint64_t peer_incarnation = 0;  // 0: any
  std::uint64_t view = 0;              // 0: before the first view
  std::uint64_t job = 0;               // incarnation of the job, 0 before the first view

  bool operator==(const HandshakeIdentity&) const = default;
};
inline constexpr std::uint8_t kFlagKeyless = 1;

// The tags are left zero: they cover every byte before them.
HelloBytes encode_hello(const HandshakeIdentity& identity, const std::string& run_id,
                        const PublicKey& ephemeral);
ReplyBytes encode_reply(const HandshakeIdentity& identity, const PublicKey& ephemeral);
FinishBytes encode_finish();
ReplyBytes encode_reject(RejectCode code, std::uint64_t number, const std::string& text);

struct Hello {
  HandshakeIdentity identity;
  std::string run_id;
  PublicKey ephemeral;
};
struct Reply {
  HandshakeIdentity identity;
  PublicKey ephemeral;
};
struct Reject {
  RejectCode code = RejectCode::kMalformed;
  std::uint64_t number = 0;
  std::string text;  // printable characters only
};

// False as soon as `bytes`, the beginning of a message, differ from the magic.
bool may_be_handshake(std::span<const std::byte> bytes);
// Of a message that begins with the magic and has at least 12 bytes.
std::uint16_t version_of(std::span<const std::byte> bytes);
HandshakeType type_of(std::span<const std::byte> bytes);

// nullopt for another type, an unknown enumerator or a non-zero reserved byte. Tags are not looked
// at.
std::optional<Hello> decode_hello(const HelloBytes& bytes);
std::optional<Reply> decode_reply(const ReplyBytes& bytes);
bool decode_finish(const FinishBytes& bytes);
std::optional<Reject> decode_reject(const ReplyBytes& bytes);

// As it travels: texts of more than kRunIdBytes are replaced by a prefix and a hash of the whole.
std::string wire_run_id(const std::string& run_id);

}  // namespace syncline::wire
