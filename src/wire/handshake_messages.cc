#include "wire/handshake_messages.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"

namespace syncline::wire {
namespace {

void put_prefix(ByteWriter& writer, HandshakeType type, std::uint8_t flags) {
  writer.put_bytes(std::as_bytes(std::span(kHandshakeMagic)));
  writer.put(kHandshakeVersion);
  writer.put(static_cast<std::uint8_t>(type));
  writer.put(flags);
}

void put_identity(ByteWriter& writer, HandshakeType type, const HandshakeIdentity& id) {
  put_prefix(writer, type, id.flags);
  writer.put(static_cast<std::uint8_t>(id.role));
  writer.put(static_cast<std::uint8_t>(id.level));
  writer.put(id.rail);
  writer.put(id.rank);
  writer.put(id.peer_rank);
  writer.put(id.world_size);
  writer.put(std::uint32_t{0});
  writer.put(id.incarnation);
  writer.put(id.peer_incarnation);
  writer.put(id.view);
  writer.put(id.job);
}

void put_text(ByteWriter& writer, const std::string& text) {
  std::array<char, kRunIdBytes> field{};
  std::memcpy(field.data(), text.data(), std::min(text.size(), field.size()));
  writer.put_bytes(std::as_bytes(std::span(field)));
}

// Zero-filled to the size of the message.
template <class Message>
Message finished(const ByteWriter& writer) {
  Message message{};
  std::copy(writer.bytes().begin(), writer.bytes().end(), message.begin());
  return message;
}

bool get_prefix(ByteReader& reader, HandshakeType type, std::uint8_t* flags) {
  const auto magic = reader.get_bytes(kHandshakeMagic.size());
  const auto version = reader.get<std::uint16_t>();
  const auto got = reader.get<std::uint8_t>();
  *flags = reader.get<std::uint8_t>();
  return reader.ok() && may_be_handshake(magic) && version == kHandshakeVersion &&
         got == static_cast<std::uint8_t>(type);
}

bool get_identity(ByteReader& reader, HandshakeType type, HandshakeIdentity& id) {
  if (!get_prefix(reader, type, &id.flags)) return false;
  const auto role = reader.get<std::uint8_t>();
  const auto level = reader.get<std::uint8_t>();
  id.role = static_cast<ConnectionRole>(role);
  id.level = static_cast<DataLevel>(level);
  id.rail = reader.get<std::uint16_t>();
  id.rank = reader.get<std::int32_t>();
  id.peer_rank = reader.get<std::int32_t>();
  id.world_size = reader.get<std::uint32_t>();
  const auto reserved = reader.get<std::uint32_t>();
  id.incarnation = reader.get<std::uint64_t>();
  id.peer_incarnation = reader.get<std::uint64_t>();
  id.view = reader.get<std::uint64_t>();
  id.job = reader.get<std::uint64_t>();
  return reader.ok() && reserved == 0 && id.flags <= kFlagKeyless && role >= 1 && role <= 4 &&
         level >= 1 && level <= 3;
}

std::string get_text(ByteReader& reader) {
  const auto field = reader.get_bytes(kRunIdBytes);
  std::string text;
  for (const std::byte b : field) {
    const auto c = std::to_integer<unsigned char>(b);
    if (c == 0) break;
    text += c >= 0x20 && c < 0x7f ? static_cast<char>(c) : '?';
  }
  return text;
}

PublicKey get_key(ByteReader& reader) {
  PublicKey key{};
  const auto bytes = reader.get_bytes(key.size());
  if (reader.ok()) std::memcpy(key.data(), bytes.data(), key.size());
  return key;
}

bool zeros(ByteReader& reader, std::size_t count) {
  const auto bytes = reader.get_bytes(count);
  return reader.ok() &&
         std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

HelloBytes encode_hello(const HandshakeIdentity& identity, const std::string& run_id,
                        const PublicKey& ephemeral) {
  ByteWriter writer;
  put_identity(writer, HandshakeType::kHello, identity);
  put_text(writer, run_id);
  writer.put_bytes(std::as_bytes(std::span(ephemeral)));
  return finished<HelloBytes>(writer);
}

ReplyBytes encode_reply(const HandshakeIdentity& identity, const PublicKey& ephemeral) {
  ByteWriter writer;
  put_identity(writer, HandshakeType::kReply, identity);
  writer.put_bytes(std::as_bytes(std::span(ephemeral)));
  return finished<ReplyBytes>(writer);
}

FinishBytes encode_finish() {
  ByteWriter writer;
  put_prefix(writer, HandshakeType::kFinish, 0);
  return finished<FinishBytes>(writer);
}

ReplyBytes encode_reject(RejectCode code, std::uint64_t number, const std::string& text) {
  ByteWriter writer;
  put_prefix(writer, HandshakeType::kReject, 0);
  writer.put(static_cast<std::uint32_t>(code));
  writer.put(number);
  put_text(writer, text);
  return finished<ReplyBytes>(writer);
}

bool may_be_handshake(std::span<const std::byte> bytes) {
  const std::size_t count = std::min(bytes.size(), kHandshakeMagic.size());
  return std::memcmp(bytes.data(), kHandshakeMagic.data(), count) == 0;
}

std::uint16_t version_of(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  reader.get_bytes(kHandshakeMagic.size());
  return reader.get<std::uint16_t>();
}

HandshakeType type_of(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  reader.get_bytes(kHandshakeMagic.size() + 2);
  return static_cast<HandshakeType>(reader.get<std::uint8_t>());
}

std::optional<Hello> decode_hello(const HelloBytes& bytes) {
  ByteReader reader(bytes);
  Hello hello;
  if (!get_identity(reader, HandshakeType::kHello, hello.identity)) return std::nullopt;
  hello.run_id = get_text(reader);
  hello.ephemeral = get_key(reader);
  if (!zeros(reader, reader.remaining() - kTagBytes)) return std::nullopt;
  return hello;
}

std::optional<Reply> decode_reply(const ReplyBytes& bytes) {
  ByteReader reader(bytes);
  Reply reply;
  if (!get_identity(reader, HandshakeType::kReply, reply.identity)) return std::nullopt;
  reply.ephemeral = get_key(reader);
  if (!zeros(reader, reader.remaining() - kTagBytes)) return std::nullopt;
  return reply;
}

bool decode_finish(const FinishBytes& bytes) {
  ByteReader reader(bytes);
  std::uint8_t flags = 0;
  return get_prefix(reader, HandshakeType::kFinish, &flags) && flags == 0 &&
         zeros(reader, reader.remaining() - kTagBytes);
}

std::optional<Reject> decode_reject(const ReplyBytes& bytes) {
  ByteReader reader(bytes);
  const auto magic = reader.get_bytes(kHandshakeMagic.size());
  reader.get<std::uint16_t>();  // any version may reject
  const auto type = reader.get<std::uint8_t>();
  reader.get<std::uint8_t>();
  Reject reject;
  reject.code = static_cast<RejectCode>(reader.get<std::uint32_t>());
  reject.number = reader.get<std::uint64_t>();
  reject.text = get_text(reader);
  if (!may_be_handshake(magic) || type != static_cast<std::uint8_t>(HandshakeType::kReject)) {
    return std::nullopt;
  }
  return reject;
}

std::string wire_run_id(const std::string& run_id) {
  if (run_id.size() <= kRunIdBytes) return run_id;
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : run_id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  const std::string suffix = "~" + std::to_string(hash);
  return run_id.substr(0, kRunIdBytes - suffix.size()) + suffix;
}

}  // namespace syncline::wire
