#include "wire/messages.h"

#include "base/bytes.h"
#include "wire/malformed.h"

namespace syncline::wire {
namespace {

std::string_view cut(const std::string& text) {
  return std::string_view(text).substr(0, kTextBytesMax);
}

}  // namespace

std::vector<std::byte> encode(const AbortMessage& message) {
  ByteWriter writer;
  writer.put(static_cast<std::uint8_t>(message.code));
  writer.put(message.peer);
  writer.put(message.origin);
  writer.put_string(cut(message.text));
  return writer.take();
}

std::vector<std::byte> encode(const NotifyMessage& message) {
  ByteWriter writer;
  writer.put(static_cast<std::uint8_t>(message.kind));
  writer.put(message.rank);
  writer.put(message.incarnation);
  writer.put_string(cut(message.text));
  return writer.take();
}

Result<AbortMessage> decode_abort(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  AbortMessage message;
  const auto code = reader.get<std::uint8_t>();
  message.code = static_cast<Code>(code);
  message.peer = reader.get<std::int32_t>();
  message.origin = reader.get<std::int32_t>();
  message.text = reader.get_string(kTextBytesMax);
  const bool code_valid = code != 0 && code <= static_cast<std::uint8_t>(Code::kInternal);
  if (!reader.at_end() || !code_valid) return malformed("abort", bytes.size());
  return message;
}

Result<NotifyMessage> decode_notify(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  NotifyMessage message;
  const auto kind = reader.get<std::uint8_t>();
  message.kind = static_cast<NotifyKind>(kind);
  message.rank = reader.get<std::int32_t>();
  message.incarnation = reader.get<std::uint64_t>();
  message.text = reader.get_string(kTextBytesMax);
  const bool kind_valid = kind >= static_cast<std::uint8_t>(NotifyKind::kPeerLost) &&
                          kind <= static_cast<std::uint8_t>(NotifyKind::kWaitsToo);
  if (!reader.at_end() || !kind_valid) return malformed("notify", bytes.size());
  return message;
}

}  // namespace syncline::wire
