#include "wire/membership_messages.h"

#include <algorithm>

#include "base/bytes.h"
#include "wire/malformed.h"

namespace syncline::wire {
namespace {

constexpr std::size_t kMemberBytesMax =
    4 + 8 + 4 + 4 + 3 * (4 + kNameBytesMax) + 2 + kAddressesMax * (4 + kAddressBytesMax);

std::string cut(const std::string& text, std::size_t bytes_max) {
  return text.substr(0, bytes_max);
}

ByteWriter begin(MembershipType type) {
  ByteWriter writer;
  writer.put(static_cast<std::uint8_t>(type));
  return writer;
}

bool begins(ByteReader& reader, MembershipType type) {
  return reader.get<std::uint8_t>() == static_cast<std::uint8_t>(type);
}

void put_member(ByteWriter& writer, const Member& member) {
  writer.put(static_cast<std::int32_t>(member.rank));
  writer.put(member.incarnation);
  writer.put(static_cast<std::int32_t>(member.pid));
  writer.put(static_cast<std::int32_t>(member.launcher_pid));
  writer.put_string(cut(member.host_name, kNameBytesMax));
  writer.put_string(cut(member.host_id, kNameBytesMax));
  writer.put_string(cut(member.shm_name, kNameBytesMax));
  const std::size_t count = std::min(member.addresses.size(), kAddressesMax);
  writer.put(static_cast<std::uint16_t>(count));
  for (std::size_t i = 0; i < count; ++i)
    writer.put_string(cut(member.addresses[i], kAddressBytesMax));
}

bool get_member(ByteReader& reader, Member& member) {
  member.rank = reader.get<std::int32_t>();
  member.incarnation = reader.get<std::uint64_t>();
  member.pid = reader.get<std::int32_t>();
  member.launcher_pid = reader.get<std::int32_t>();
  member.host_name = reader.get_string(kNameBytesMax);
  member.host_id = reader.get_string(kNameBytesMax);
  member.shm_name = reader.get_string(kNameBytesMax);
  const auto count = reader.get<std::uint16_t>();
  if (count > kAddressesMax) return false;
  for (std::size_t i = 0; i < count && reader.ok(); ++i) {
    member.addresses.push_back(reader.get_string(kAddressBytesMax));
  }
  return reader.ok();
}

}  // namespace

std::size_t table_bytes_max(int world_size) {
  return 64 + static_cast<std::size_t>(world_size) * kMemberBytesMax;
}

std::vector<std::byte> encode_join(const Member& member) {
  ByteWriter writer = begin(MembershipType::kJoin);
  put_member(writer, member);
  return writer.take();
}

std::vector<std::byte> encode_table(const View& view) {
  ByteWriter writer = begin(MembershipType::kTable);
  writer.put(view.view);
  writer.put(view.job);
  writer.put(static_cast<std::uint32_t>(view.members.size()));
  for (const Member& member : view.members) put_member(writer, member);
  return writer.take();
}

std::vector<std::byte> encode_waiting(const std::string& text) {
  ByteWriter writer = begin(MembershipType::kWaiting);
  writer.put_string(cut(text, kRefusalBytesMax));
  return writer.take();
}

std::vector<std::byte> encode_refuse(const Refusal& refusal) {
  ByteWriter writer = begin(MembershipType::kRefuse);
  writer.put(static_cast<std::uint8_t>(refusal.code));
  writer.put(static_cast<std::int32_t>(refusal.peer));
  writer.put_string(cut(refusal.text, kRefusalBytesMax));
  return writer.take();
}

std::vector<std::byte> encode_plain(MembershipType type) { return begin(type).take(); }

Result<MembershipType> membership_type(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const auto type = reader.get<std::uint8_t>();
  if (type < 1 || type > 7) return malformed("membership", bytes.size());
  return static_cast<MembershipType>(type);
}

Result<Member> decode_join(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Member member;
  if (!begins(reader, MembershipType::kJoin) || !get_member(reader, member) || !reader.at_end()) {
    return malformed("join", bytes.size());
  }
  return member;
}

Result<View> decode_table(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  View view;
  if (!begins(reader, MembershipType::kTable)) return malformed("table", bytes.size());
  view.view = reader.get<std::uint64_t>();
  view.job = reader.get<std::uint64_t>();
  const auto count = reader.get<std::uint32_t>();
  if (count > kMembersMax) return malformed("table", bytes.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    Member member;
    if (!get_member(reader, member)) return malformed("table", bytes.size());
    view.members.push_back(std::move(member));
  }
  if (!reader.at_end()) return malformed("table", bytes.size());
  return view;
}

Result<std::string> decode_waiting(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const bool begun = begins(reader, MembershipType::kWaiting);
  std::string text = reader.get_string(kRefusalBytesMax);
  if (!begun || !reader.at_end()) return malformed("waiting", bytes.size());
  return text;
}

Result<Refusal> decode_refuse(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  const bool begun = begins(reader, MembershipType::kRefuse);
  Refusal refusal;
  const auto code = reader.get<std::uint8_t>();
  refusal.code = static_cast<Code>(code);
  refusal.peer = reader.get<std::int32_t>();
  refusal.text = reader.get_string(kRefusalBytesMax);
  if (!begun || !reader.at_end() || code == 0 ||
      code > static_cast<std::uint8_t>(Code::kInternal)) {
    return malformed("refusal", bytes.size());
  }
  return refusal;
}

}  // namespace syncline::wire
