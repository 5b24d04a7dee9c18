// Little-endian readers and writers for wire and file formats. ByteReader checks every length:
// after a short read it stays failed and yields zeros, so decoders test ok() once at the end.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace syncline {

static_assert(std::endian::native == std::endian::little, "big-endian hosts are not supported");

class ByteWriter {
 public:
  template <class T>
  void put(T value) {
    static_assert(std::is_integral_v<T>);
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    std::memcpy(bytes_.data() + at, &value, sizeof value);
  }
  void put_bytes(std::span<const std::byte> data) {
    bytes_.insert(bytes_.end(), data.begin(), data.end());
  }
  // u32 length, then the bytes.
  void put_string(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    put_bytes(std::as_bytes(std::span(text.data(), text.size())));
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class T>
  T get() {
    static_assert(std::is_integral_v<T>);
    T value{};
    if (!ok_ || rest_.size() < sizeof value) return fail(), value;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof value);
    return value;
  }
  std::span<const std::byte> get_bytes(std::size_t count) {
    if (!ok_ || rest_.size() < count) return fail(), std::span<const std::byte>{};
    const auto head = rest_.first(count);
    rest_ = rest_.subspan(count);
    return head;
  }
  // Refuses lengths above `bytes_max` before touching memory.
  std::string get_string(std::size_t bytes_max) {
    const auto length = get<std::uint32_t>();
    if (length > bytes_max) fail();
    const auto data = get_bytes(ok_ ? length : 0);
    return {reinterpret_cast<const char*>(data.data()), data.size()};
  }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }
  std::size_t remaining() const { return rest_.size(); }

 private:
  void fail() {
    ok_ = false;
    rest_ = {};
  }
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

}  // namespace syncline
