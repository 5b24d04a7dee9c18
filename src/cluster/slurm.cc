#include "cluster/slurm.h"

#include <charconv>
#include <optional>

namespace syncline::cluster {
namespace {

Status malformed(const char* what, std::string_view text) {
  return Status(Code::kInvalidArgument,
                std::string("cannot read Slurm's ") + what + " '" + std::string(text) + "'");
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Splits at commas outside brackets.
std::vector<std::string_view> split_top_level(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    } else if (text[i] == '[') {
      ++depth;
    } else if (text[i] == ']') {
      --depth;
    }
  }
  return parts;
}

// "01-03" or "07" with `prefix` in front of each.
bool expand_range(std::string_view range, const std::string& prefix,
                  std::vector<std::string>& out) {
  const auto dash = range.find('-');
  const std::string_view low_text = range.substr(0, dash);
  const auto low = number(low_text);
  const auto high = dash == std::string_view::npos ? low : number(range.substr(dash + 1));
  if (!low || !high || *high < *low || *high - *low >= kSlurmEntriesMax) return false;
  for (std::uint64_t i = *low; i <= *high; ++i) {
    std::string digits = std::to_string(i);
    if (digits.size() < low_text.size()) digits.insert(0, low_text.size() - digits.size(), '0');
    out.push_back(prefix + digits);
  }
  return out.size() <= kSlurmEntriesMax;
}

// One comma-free entry such as "rack[1-2]n[01-03]".
bool expand_entry(std::string_view entry, std::vector<std::string>& out) {
  std::vector<std::string> names{""};
  while (!entry.empty()) {
    const auto open = entry.find('[');
    const std::string literal(entry.substr(0, open));
    if (literal.find(']') != std::string::npos) return false;
    for (auto& name : names) name += literal;
    if (open == std::string_view::npos) break;
    const auto close = entry.find(']', open);
    if (close == std::string_view::npos) return false;
    std::vector<std::string> grown;
    for (const auto& name : names) {
      for (const auto range : split_top_level(entry.substr(open + 1, close - open - 1))) {
        if (!expand_range(range, name, grown)) return false;
      }
    }
    names = std::move(grown);
    entry.remove_prefix(close + 1);
  }
  out.insert(out.end(), names.begin(), names.end());
  return out.size() <= kSlurmEntriesMax;
}

}  // namespace

Result<std::vector<int>> expand_tasks_per_node(std::string_view text) {
  std::vector<int> counts;
  for (std::string_view part : split_top_level(text)) {
    std::uint64_t repeat = 1;
    if (const auto open = part.find("(x"); open != std::string_view::npos) {
      if (part.back() != ')') return malformed("task counts", text);
      const auto times = number(part.substr(open + 2, part.size() - open - 3));
      if (!times) return malformed("task counts", text);
      repeat = *times;
      part = part.substr(0, open);
    }
    const auto tasks = number(part);
    if (!tasks || *tasks > kSlurmEntriesMax || repeat == 0 ||
        repeat > kSlurmEntriesMax - counts.size()) {
      return malformed("task counts", text);
    }
    counts.insert(counts.end(), repeat, static_cast<int>(*tasks));
  }
  return counts;
}

Result<std::vector<std::string>> expand_nodelist(std::string_view text) {
  std::vector<std::string> hosts;
  for (const std::string_view entry : split_top_level(text)) {
    if (entry.empty() || !expand_entry(entry, hosts)) return malformed("host list", text);
  }
  return hosts;
}

std::uint16_t slurm_port(std::uint64_t job_id, std::uint64_t step_id) {
  return static_cast<std::uint16_t>(20000 + (16 * job_id + step_id) % 12000);
}

}  // namespace syncline::cluster
