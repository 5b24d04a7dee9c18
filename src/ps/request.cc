#include "ps/request.h"

#include <bit>
#include <cmath>

#include "base/bytes.h"

namespace syncline::ps {
namespace {

constexpr std::uint8_t kRequestVersion = 1;
constexpr std::uint8_t kSeparate = 1;
constexpr std::uint8_t kContinues = 2;
constexpr std::uint8_t kAnswers = 4;
constexpr std::uint8_t kSummed = 8;
constexpr std::uint8_t kWeighted = 16;
constexpr std::size_t kSlicesMax = 1 << 20;
constexpr std::uint64_t kElementsMax = std::uint64_t{1} << 48;  // bytes of them do not overflow

Status malformed(const char* what) {
  return Status(Code::kCorrupt, std::string(what) +
                                    " that does not verify; run the same Syncline "
                                    "release in every process");
}

void put_double(ByteWriter& out, double value) { out.put(std::bit_cast<std::uint64_t>(value)); }
double get_double(ByteReader& in) { return std::bit_cast<double>(in.get<std::uint64_t>()); }

void put_optimizer(ByteWriter& out, const optim::Optimizer& x) {
  out.put(static_cast<std::uint8_t>(x.kind()));
  out.put(static_cast<std::uint8_t>((x.nesterov() ? 1 : 0) | (x.centered() ? 2 : 0)));
  for (const double number :
       {x.lr(), x.weight_decay(), x.momentum(), x.dampening(), x.beta1(), x.beta2(), x.eps(),
        x.alpha(), x.lr_decay(), x.initial_accumulator(), x.trust_coefficient()}) {
    put_double(out, number);
  }
  out.put(x.custom_id());
}

std::optional<optim::Optimizer> get_optimizer(ByteReader& in) {
  auto x = blank_optimizer(static_cast<optim::Kind>(in.get<std::uint8_t>()));
  const auto flags = in.get<std::uint8_t>();
  double numbers[11];
  for (double& number : numbers) number = get_double(in);
  const auto custom = in.get<std::uint32_t>();
  if (!x.has_value() || flags > 3 || !in.ok()) return std::nullopt;
  x->nesterov((flags & 1) != 0).centered((flags & 2) != 0);
  x->lr(numbers[0]).weight_decay(numbers[1]).momentum(numbers[2]).dampening(numbers[3]);
  x->betas(numbers[4], numbers[5]).eps(numbers[6]).alpha(numbers[7]).lr_decay(numbers[8]);
  x->initial_accumulator(numbers[9]).trust_coefficient(numbers[10]).custom_id(custom);
  return x;
}

}  // namespace

void encode(const Request& request, std::span<std::byte, kRequestHeaderBytes> out) {
  ByteWriter writer;
  writer.put(kRequestVersion);
  writer.put(static_cast<std::uint8_t>(request.kind));
  writer.put(request.store);
  writer.put(request.key);
  writer.put(request.slice);
  writer.put(request.tag);
  writer.put(request.priority);
  writer.put(static_cast<std::uint8_t>(request.dtype));
  writer.put(static_cast<std::uint8_t>(
      (request.separate ? kSeparate : 0) | (request.continues ? kContinues : 0) |
      (request.answers ? kAnswers : 0) | (request.summed ? kSummed : 0) |
      (request.weighted ? kWeighted : 0)));
  writer.put(std::uint16_t{0});
  writer.put(request.inlined);
  writer.put(std::uint32_t{0});
  writer.put(request.clock);
  writer.put(request.count);
  put_double(writer, request.samples);
  std::copy(writer.bytes().begin(), writer.bytes().end(), out.begin());
}

std::uint16_t store_of(std::span<const std::byte> message) {
  ByteReader in(message);
  (void)in.get<std::uint16_t>();
  return in.get<std::uint16_t>();
}

Result<Request> decode_request(std::span<const std::byte> message) {
  ByteReader in(message);
  Request request;
  const auto version = in.get<std::uint8_t>();
  const auto kind = in.get<std::uint8_t>();
  request.kind = static_cast<RequestKind>(kind);
  request.store = in.get<std::uint16_t>();
  request.key = in.get<std::uint32_t>();
  request.slice = in.get<std::uint32_t>();
  request.tag = in.get<std::int32_t>();
  request.priority = in.get<std::int32_t>();
  const auto dtype = in.get<std::uint8_t>();
  request.dtype = static_cast<DType>(dtype);
  const auto flags = in.get<std::uint8_t>();
  request.separate = (flags & kSeparate) != 0;
  request.continues = (flags & kContinues) != 0;
  request.answers = (flags & kAnswers) != 0;
  request.summed = (flags & kSummed) != 0;
  request.weighted = (flags & kWeighted) != 0;
  std::uint32_t reserved = in.get<std::uint16_t>();
  request.inlined = in.get<std::uint32_t>();
  reserved |= in.get<std::uint32_t>();
  request.clock = in.get<std::uint64_t>();
  request.count = in.get<std::uint64_t>();
  request.samples = get_double(in);
  const bool known = version == kRequestVersion && kind >= 1 &&
                     kind <= static_cast<std::uint8_t>(RequestKind::kRestore) &&
                     dtype < kDTypeCount;
  const bool plain = flags <= (kSeparate | kContinues | kAnswers | kSummed | kWeighted) &&
                     reserved == 0 && (!request.summed || request.kind == RequestKind::kPush) &&
                     (!request.weighted || request.summed) &&
                     (!request.answers || (request.kind == RequestKind::kPush &&
                                           request.tag < last_reply_tag(request.store)));
  if (!in.ok() || !known || !plain || request.inlined != in.remaining() ||
      request.inlined > kInlineMax || request.tag < first_reply_tag(request.store) ||
      request.tag > last_reply_tag(request.store) || !std::isfinite(request.samples) ||
      request.samples < 0) {
    return malformed("a store's request");
  }
  return request;
}

std::vector<std::byte> encode(const KeyDescription& key) {
  ByteWriter out;
  out.put_string(key.name);
  out.put(key.key);
  out.put(static_cast<std::uint8_t>(key.dtype));
  out.put(static_cast<std::uint8_t>((key.table ? 1 : 0) | (key.optimizer.has_value() ? 2 : 0)));
  out.put(key.count);
  out.put(key.rows_max);
  out.put(static_cast<std::uint8_t>(key.init.kind));
  put_double(out, key.init.a);
  put_double(out, key.init.b);
  out.put(key.init.seed);
  if (key.optimizer.has_value()) put_optimizer(out, *key.optimizer);
  out.put(static_cast<std::uint32_t>(key.slices.size()));
  // Slices follow each other, so that lengths and servers say all.
  for (const PlacedSlice& slice : key.slices) {
    out.put(static_cast<std::uint64_t>(slice.count));
    out.put(static_cast<std::uint16_t>(slice.server));
  }
  return out.take();
}

Result<KeyDescription> decode_key(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  KeyDescription key;
  key.name = in.get_string(kKeyNameMax);
  key.key = in.get<std::uint32_t>();
  const auto dtype = in.get<std::uint8_t>();
  const auto flags = in.get<std::uint8_t>();
  key.count = in.get<std::uint64_t>();
  key.rows_max = in.get<std::uint64_t>();
  const auto init = in.get<std::uint8_t>();
  key.init.a = get_double(in);
  key.init.b = get_double(in);
  key.init.seed = in.get<std::uint64_t>();
  if (!in.ok() || dtype >= kDTypeCount || flags > 3 || init > 2) return malformed("a key");
  key.dtype = static_cast<DType>(dtype);
  key.table = (flags & 1) != 0;
  key.init.kind = static_cast<RowInit::Kind>(init);
  const bool fits =
      key.table ? key.count >= 1 && key.count <= kRowElementsMax : key.count <= kElementsMax;
  if (key.name.empty() || !fits || (key.table && key.dtype != DType::kF32)) {
    return malformed("a key");
  }
  if ((flags & 2) != 0 && !(key.optimizer = get_optimizer(in)).has_value()) {
    return malformed("a key's optimiser");
  }
  const auto slices = in.get<std::uint32_t>();
  if (slices > kSlicesMax || slices * std::size_t{10} > in.remaining() ||
      (key.table && slices > 0)) {
    return malformed("a key");
  }
  std::size_t begin = 0;
  for (std::uint32_t i = 0; i < slices; ++i) {
    const auto count = in.get<std::uint64_t>();
    const auto server = in.get<std::uint16_t>();
    if (count == 0 || count > key.count - begin) return malformed("a key's slices");
    key.slices.push_back({begin, static_cast<std::size_t>(count), server});
    begin += count;
  }
  if (!in.at_end() || (!key.table && begin != key.count)) return malformed("a key");
  return key;
}

std::vector<std::byte> encode(const Rules& rules) {
  ByteWriter out;
  out.put(rules.bound);
  out.put(static_cast<std::uint8_t>(rules.combine));
  out.put(static_cast<std::uint8_t>(rules.scale_by_age ? 1 : 0));
  return out.take();
}

Result<Rules> decode_rules(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  Rules rules;
  rules.bound = in.get<std::uint64_t>();
  const auto combine = in.get<std::uint8_t>();
  rules.combine = static_cast<Combine>(combine);
  const auto scales = in.get<std::uint8_t>();
  rules.scale_by_age = scales != 0;
  if (!in.at_end() || combine > 1 || scales > 1) return malformed("a store's rules");
  return rules;
}

std::optional<optim::Optimizer> blank_optimizer(optim::Kind kind) {
  switch (kind) {
    case optim::Kind::kSgd:
      return optim::Sgd(0);
    case optim::Kind::kAdam:
      return optim::Adam();
    case optim::Kind::kAdamW:
      return optim::AdamW();
    case optim::Kind::kAdagrad:
      return optim::Adagrad();
    case optim::Kind::kRmsprop:
      return optim::Rmsprop();
    case optim::Kind::kLars:
      return optim::Lars(0);
    case optim::Kind::kLamb:
      return optim::Lamb();
    case optim::Kind::kRowwiseAdagrad:
      return optim::RowwiseAdagrad();
    case optim::Kind::kCustom:
      return optim::Custom(0);
  }
  return std::nullopt;
}

std::vector<std::byte> encode(const optim::Optimizer& optimizer) {
  ByteWriter out;
  put_optimizer(out, optimizer);
  return out.take();
}

Result<optim::Optimizer> decode_optimizer(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  const auto optimizer = get_optimizer(in);
  if (!optimizer.has_value() || !in.at_end()) return malformed("an optimiser");
  return *optimizer;
}

std::vector<std::byte> encode(const ErrorNote& note) {
  ByteWriter out;
  out.put(note.tag);
  out.put(static_cast<std::uint8_t>(note.code));
  out.put_string(std::string_view(note.text).substr(0, kErrorNoteBytes - 9));
  return out.take();
}

Result<ErrorNote> decode_error(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  ErrorNote note;
  note.tag = in.get<std::int32_t>();
  const auto code = in.get<std::uint8_t>();
  note.text = in.get_string(kErrorNoteBytes);
  if (!in.at_end() || code == 0 || code > static_cast<std::uint8_t>(Code::kInternal)) {
    return malformed("a server's error");
  }
  note.code = static_cast<Code>(code);
  return note;
}

std::vector<std::byte> encode(const ServerStats& s) {
  ByteWriter out;
  for (const std::uint64_t number : {s.keys, s.rows, s.value_bytes, s.state_bytes, s.held_bytes,
                                     s.updates, s.age_sum, s.age_max, s.closed}) {
    out.put(number);
  }
  return out.take();
}

Result<ServerStats> decode_stats(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  ServerStats s;
  for (std::uint64_t* number : {&s.keys, &s.rows, &s.value_bytes, &s.state_bytes, &s.held_bytes,
                                &s.updates, &s.age_sum, &s.age_max, &s.closed}) {
    *number = in.get<std::uint64_t>();
  }
  if (!in.at_end()) return malformed("a server's statistics");
  return s;
}

}  // namespace syncline::ps
