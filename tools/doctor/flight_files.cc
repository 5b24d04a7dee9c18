#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>

#include "base/flight_memory.h"
#include "cluster/host_identity.h"
#include "fmt/format.h"
#include "tools/cli/exit_code.h"
#include "tools/cli/invocation.h"
#include "tools/doctor/flight.h"

namespace syncline::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFlightFilesMax = 65536;

std::vector<fs::directory_entry> flight_entries(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  while (!error && entry != fs::directory_iterator() && entries.size() < kFlightFilesMax) {
    entries.push_back(*entry);
    entry.increment(error);
  }
  return entries;
}

std::vector<std::string> records_in(const fs::path& folder) {
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : flight_entries(folder)) {
    if (entry.path().extension() == flight::kFileEnding) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> records_at(const std::string& name) {
  std::error_code error;
  if (!fs::is_directory(name, error)) return {name};
  std::vector<std::string> newest = records_in(name);
  fs::file_time_type newest_time = fs::file_time_type::min();
  if (!newest.empty()) return newest;
  for (const fs::directory_entry& entry : flight_entries(name)) {
    if (!entry.is_directory(error)) continue;
    const fs::file_time_type time = entry.last_write_time(error);
    if (error || time <= newest_time) continue;
    std::vector<std::string> files = records_in(entry.path());
    if (files.empty()) continue;
    newest = std::move(files);
    newest_time = time;
  }
  return newest;
}

// A record that nobody dumped and whose process is not there any more.
bool is_abandoned(const observe::FlightDump& dump) {
  return dump.header.dump.reason == flight::Reason::kNone &&
         dump.header.state == flight::State::kInJob && dump.host == cluster::host_name() &&
         kill(static_cast<pid_t>(dump.header.pid), 0) != 0 && errno == ESRCH;
}

void keep_newest_job(FlightSet& set) {
  const auto started = [](const observe::FlightDump& dump) { return dump.header.start_wall; };
  const auto newest =
      std::max_element(set.dumps.begin(), set.dumps.end(),
                       [&](const auto& a, const auto& b) { return started(a) < started(b); });
  if (newest == set.dumps.end()) return;
  const std::string job = newest->job;
  std::map<int, observe::FlightDump> by_rank;
  for (observe::FlightDump& dump : set.dumps) {
    if (dump.job != job) {
      set.problems.push_back(
          fmt::format("{}: left out, it is of job '{}', an older one", dump.source, dump.job));
      continue;
    }
    const auto found = by_rank.find(dump.header.rank);
    if (found == by_rank.end()) {
      by_rank.emplace(dump.header.rank, std::move(dump));
    } else if (found->second.taken() < dump.taken()) {  // a record and an earlier dump of it
      found->second = std::move(dump);
    }
  }
  set.dumps.clear();
  for (auto& [rank, dump] : by_rank) set.dumps.push_back(std::move(dump));
}

}  // namespace

FlightSet read_flights(const std::vector<std::string>& names, const EnvLookup& lookup) {
  std::vector<std::string> places = names;
  if (places.empty()) places = {flight::dump_folder(lookup), flight::live_folder(lookup)};
  FlightSet set;
  for (const std::string& place : places) {
    const std::vector<std::string> files = records_at(place);
    if (files.empty() && !names.empty()) {
      set.problems.push_back(fmt::format("{}: holds no flight records (*.flight)", place));
    }
    for (const std::string& file : files) {
      std::error_code error;
      if (names.empty() && !fs::exists(file, error)) continue;
      Result<observe::FlightDump> dump = observe::read_flight(file);
      if (!dump.ok()) {
        set.problems.push_back(dump.status().message());
        continue;
      }
      dump->writer_gone = is_abandoned(dump.value());
      set.dumps.push_back(std::move(dump).value());
    }
  }
  keep_newest_job(set);
  for (const observe::FlightDump& dump : set.dumps) {
    set.ranks.push_back(observe::summarize(dump));
  }
  return set;
}

int show_flights(const std::vector<std::string>& names, bool json) {
  const FlightSet set = read_flights(names, env);
  if (json) {
    fmt::print("{}\n", flight_json(set));
  } else {
    for (const std::string& problem : set.problems) fmt::print(stderr, "syncline: {}\n", problem);
    if (!set.ranks.empty()) fmt::print("{}", flight_text(set));
  }
  if (!set.ranks.empty()) return kExitOk;
  if (set.problems.empty()) {
    return complain(kExitUsage, fmt::format("no flight records in {} or {}; name files or a folder",
                                            flight::dump_folder(env), flight::live_folder(env)));
  }
  return kExitUsage;
}

}  // namespace syncline::tools
