#include "wire/fingerprint.h"

#include <cstring>

namespace syncline::wire {
namespace {

constexpr std::uint8_t kReproducibleBit = 0x80;  // of the byte of the reduce op

template <class T>
void store(FingerprintBytes& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

template <class T>
T load(const FingerprintBytes& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <class E>
std::string name_of(E value, int count, const char* what) {
  const int number = static_cast<int>(value);
  return number < count ? std::string(to_string(value)) : what + (" " + std::to_string(number));
}

std::uint32_t fnv1a(std::string_view text) {
  std::uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

constexpr std::uint8_t kUnequalBit = 0x80;

bool has_op(Collective kind) {
  return kind == Collective::kAllReduce || kind == Collective::kReduceScatter ||
         kind == Collective::kReduce;
}

}  // namespace

FingerprintBytes pack(const Operation& o) {
  FingerprintBytes bytes{};
  store(
      bytes, 0,
      static_cast<std::uint8_t>(static_cast<std::uint8_t>(o.kind) | (o.unequal ? kUnequalBit : 0)));
  store(bytes, 1, static_cast<std::uint8_t>(o.dtype));
  const auto op = static_cast<std::uint8_t>(o.op);
  store(bytes, 2, static_cast<std::uint8_t>(o.reproducible ? op | kReproducibleBit : op));
  store(bytes, 3, o.schedule_hash);
  store(bytes, 4, o.root);
  store(bytes, 6, o.name_hash);
  store(bytes, 8, o.count);
  return bytes;
}

Operation unpack(const FingerprintBytes& bytes) {
  Operation o;
  const auto kind = load<std::uint8_t>(bytes, 0);
  o.kind = static_cast<Collective>(kind & ~kUnequalBit);
  o.unequal = (kind & kUnequalBit) != 0;
  o.dtype = static_cast<DType>(load<std::uint8_t>(bytes, 1));
  const auto op = load<std::uint8_t>(bytes, 2);
  o.op = static_cast<ReduceOp>(op & ~kReproducibleBit);
  o.reproducible = (op & kReproducibleBit) != 0;
  o.schedule_hash = load<std::uint8_t>(bytes, 3);
  o.root = load<std::uint16_t>(bytes, 4);
  o.name_hash = load<std::uint16_t>(bytes, 6);
  o.count = load<std::uint64_t>(bytes, 8);
  return o;
}

std::uint16_t hash16(std::string_view text) {
  if (text.empty()) return 0;
  const std::uint32_t hash = fnv1a(text);
  const auto folded = static_cast<std::uint16_t>(hash ^ (hash >> 16));
  return folded == 0 ? 1 : folded;
}

std::uint8_t hash8(std::string_view text) {
  if (text.empty()) return 0;
  const std::uint16_t hash = hash16(text);
  const auto folded = static_cast<std::uint8_t>(hash ^ (hash >> 8));
  return folded == 0 ? 1 : folded;
}

std::string describe(const Operation& o) {
  std::string text = name_of(o.kind, kCollectiveCount, "unknown collective");
  if (o.unequal) text += "_v";
  if (o.kind == Collective::kBarrier) return text + "()";
  text += "(" + name_of(o.dtype, kDTypeCount, "unknown type");
  if (!o.unequal || o.count != kVariousCounts) {
    text += ", " + std::to_string(o.count) + (o.count == 1 ? " element" : " elements");
  }
  if (has_op(o.kind)) text += ", " + name_of(o.op, kReduceOpCount, "unknown operation");
  if (o.reproducible) text += ", reproducible";
  if (o.root != kNoRoot) text += ", root " + std::to_string(o.root);
  return text + ")";
}

std::string describe_mismatch(int rank_a, const Operation& a, int rank_b, const Operation& b) {
  const std::string left = describe(a);
  const std::string right = describe(b);
  std::string text = "rank " + std::to_string(rank_a) + ": " + left + "; rank " +
                     std::to_string(rank_b) + ": " + right;
  if (left != right) return text;
  if (a.name_hash != b.name_hash) text += "; their names differ";
  if (a.schedule_hash != b.schedule_hash) text += "; their schedules or segment sizes differ";
  return text;
}

}  // namespace syncline::wire
