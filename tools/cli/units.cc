#include "tools/cli/units.h"

#include <charconv>
#include <cmath>
#include <string>

#include "fmt/format.h"

namespace syncline::tools {
namespace {

Status bad(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

// Leading number of `text`; the rest goes to `unit`. Negative if there is none.
double split_number(std::string_view text, std::string_view& unit) {
  double value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return -1;
  unit = text.substr(static_cast<std::size_t>(end - text.data()));
  return value;
}

}  // namespace

Result<std::uint64_t> parse_bytes(std::string_view text) {
  std::string_view unit;
  const double value = split_number(text, unit);
  std::string_view suffix = unit;
  for (const std::string_view ending : {"iB", "B"}) {
    if (suffix.ends_with(ending)) {
      suffix.remove_suffix(ending.size());
      break;
    }
  }
  const std::string_view units = "KMGT";
  double factor = 1;
  if (suffix.size() == 1) {
    const char letter = suffix[0] == 'k' ? 'K' : suffix[0];
    const std::size_t index = units.find(letter);
    factor =
        index == std::string_view::npos ? -1 : std::ldexp(1.0, 10 * (static_cast<int>(index) + 1));
  } else if (!suffix.empty()) {
    factor = -1;
  }
  const double bytes = value * factor;
  if (value < 0 || factor < 0 || bytes > 0x1p62) {
    return bad(fmt::format("'{}' is not a size: write for example 4096, 64K, 25MiB or 2G", text));
  }
  return static_cast<std::uint64_t>(bytes);
}

Result<Nanos> parse_duration(std::string_view text) {
  std::string_view unit;
  const double value = split_number(text, unit);
  double factor = -1;
  if (unit.empty() || unit == "s") factor = 1e9;
  if (unit == "us") factor = 1e3;
  if (unit == "ms") factor = 1e6;
  if (unit == "m" || unit == "min") factor = 60e9;
  if (unit == "h") factor = 3600e9;
  if (value < 0 || factor < 0 || value * factor > 9e18) {
    return bad(fmt::format("'{}' is not a time: write for example 500ms, 10s, 2m or 1h", text));
  }
  return static_cast<Nanos>(value * factor);
}

Result<int> parse_int(std::string_view text, int low, int high, std::string_view what) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    return bad(fmt::format("{} '{}' is not a whole number from {} to {}", what, text, low, high));
  }
  return value;
}

}  // namespace syncline::tools
