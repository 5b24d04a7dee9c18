#include "tools/run/hosts.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "fmt/format.h"
#include "tools/cli/units.h"

namespace syncline::tools {
namespace {

Status bad(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

// Names end up in a remote shell's command line: nothing that a shell or ssh could take for more.
bool is_host_name(std::string_view name) {
  if (name.empty() || name.front() == '-') return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::strchr("._-:@%", c) != nullptr;
  });
}

Status add(std::vector<HostSlots>& hosts, std::string_view host, std::string_view slots) {
  if (!is_host_name(host)) return bad(fmt::format("'{}' is not a host name", host));
  int count = 1;
  if (slots.data() != nullptr) {
    const auto parsed = parse_int(slots, 1, kSlotsMax, fmt::format("slots of host {}:", host));
    if (!parsed.ok()) return parsed.status();
    count = parsed.value();
  }
  const auto same = std::find_if(hosts.begin(), hosts.end(),
                                 [&](const HostSlots& entry) { return entry.host == host; });
  if (same != hosts.end()) {
    same->slots = std::min(same->slots + count, kSlotsMax);
  } else {
    hosts.push_back({std::string(host), count});
  }
  return {};
}

// "host", "host:n", "[v6]:n"; more than one colon without brackets is an IPv6 address.
Status add_entry(std::vector<HostSlots>& hosts, std::string_view entry,
                 std::string_view slots = {}) {
  std::string_view host = entry;
  std::string_view rest;
  if (entry.starts_with('[')) {
    const std::size_t close = entry.find(']');
    if (close == std::string_view::npos) return bad(fmt::format("'{}' lacks its ']'", entry));
    host = entry.substr(1, close - 1);
    rest = entry.substr(close + 1);
    if (!rest.empty() && rest[0] != ':') return bad(fmt::format("'{}' is not host:slots", entry));
  } else if (std::count(entry.begin(), entry.end(), ':') == 1) {
    const std::size_t colon = entry.find(':');
    host = entry.substr(0, colon);
    rest = entry.substr(colon);
  }
  if (!rest.empty() && slots.data() != nullptr) {
    return bad(fmt::format("'{}' gives its slots twice", entry));
  }
  return add(hosts, host, rest.empty() ? slots : rest.substr(1));
}

Status add_line(std::vector<HostSlots>& hosts, std::string line) {
  line = line.substr(0, line.find('#'));
  std::istringstream words(line);
  std::string host;
  if (!(words >> host)) return {};
  std::string word;
  std::string slots;
  bool has_slots = false;
  while (words >> word) {
    if (word.starts_with("slots=") && !has_slots) {
      slots = word.substr(6);
      has_slots = true;
    } else if (!word.starts_with("max_slots=") && !word.starts_with("max-slots=")) {
      return bad(fmt::format("'{}' is not understood; write `host slots=n`", word));
    }
  }
  return add_entry(hosts, host, has_slots ? std::string_view(slots) : std::string_view());
}

}  // namespace

Result<std::vector<HostSlots>> parse_host_list(std::string_view text) {
  std::vector<HostSlots> hosts;
  while (true) {
    const std::size_t comma = text.find(',');
    const Status status = add_entry(hosts, text.substr(0, comma));
    if (!status.ok()) {
      return bad(fmt::format("-H: {}; write for example -H alpha:2,beta:2", status.message()));
    }
    if (comma == std::string_view::npos) return hosts;
    text.remove_prefix(comma + 1);
  }
}

Result<std::vector<HostSlots>> parse_hostfile(std::string_view text, const std::string& name) {
  std::vector<HostSlots> hosts;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const Status status = add_line(hosts, line);
    if (!status.ok()) return bad(fmt::format("{}:{}: {}", name, number, status.message()));
  }
  if (hosts.empty()) {
    return bad(fmt::format("{}: no host in it; write one `host slots=n` a line", name));
  }
  return hosts;
}

Result<std::vector<HostSlots>> read_hostfile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    const int error = errno;
    return bad(fmt::format("cannot read hostfile {}: {}", path,
                           error != 0 ? std::strerror(error) : "it is empty"));
  }
  return parse_hostfile(text.str(), path);
}

}  // namespace syncline::tools
