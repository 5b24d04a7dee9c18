// Messages of the rendezvous and of the mesh (docs/formats/rendezvous.md). Byte-exact and pure;
// bounded decoders: every count and length has a limit, lists grow only as their bytes are there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace syncline::wire {

inline constexpr std::size_t kNameBytesMax = 256;
inline constexpr std::size_t kAddressBytesMax = 96;
inline constexpr std::size_t kAddressesMax = 16;
inline constexpr std::size_t kMembersMax = 65536;
inline constexpr std::size_t kRefusalBytesMax = 1024;

// One rank as it describes itself when it joins.
struct Member {
  int rank = -1;
  std::string host_name;
  std::string host_id;  // equal: same kernel, same network namespace
  std::uint64_t incarnation = 0;
  int pid = 0;
  int launcher_pid = 0;                // parent process, tells jobs without a run id apart
  std::vector<std::string> addresses;  // of the data listener, "ip:port", best first
  std::string shm_name;                // opaque to this layer

  bool operator==(const Member&) const = default;
};

// Who is in. Members are in rank order, one for each rank.
struct View {
  std::uint64_t view = 0;
  std::uint64_t job = 0;  // incarnation of the job: random, chosen by rank 0
  std::vector<Member> members;

  bool operator==(const View&) const = default;
};

enum class MembershipType : std::uint8_t {
  kJoin = 1,     // guest: a Member
  kWaiting = 2,  // host: who is missing, in words
  kTable = 3,    // host: a View
  kAck = 4,      // guest: has the table
  kStart = 5,    // host: everyone has the table
  kRefuse = 6,   // either: code and reason
  kAdmit = 7,    // mesh listener: this connection is the rail
};

struct Refusal {
  Code code = Code::kInternal;
  int peer = -1;  // rank at fault
  std::string text;
};

std::vector<std::byte> encode_join(const Member& member);
std::vector<std::byte> encode_table(const View& view);
std::vector<std::byte> encode_waiting(const std::string& text);
std::vector<std::byte> encode_refuse(const Refusal& refusal);
std::vector<std::byte> encode_plain(MembershipType type);  // kAck, kStart, kAdmit

// kCorrupt for an empty message or an unknown type.
Result<MembershipType> membership_type(std::span<const std::byte> bytes);
// Of a message whose type was looked at; kCorrupt for anything that is not exactly one such
// message.
Result<Member> decode_join(std::span<const std::byte> bytes);
Result<View> decode_table(std::span<const std::byte> bytes);
Result<std::string> decode_waiting(std::span<const std::byte> bytes);
Result<Refusal> decode_refuse(std::span<const std::byte> bytes);

// Upper bound of a table of `world_size` ranks.
std::size_t table_bytes_max(int world_size);

}  // namespace syncline::wire
