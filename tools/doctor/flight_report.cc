#include <algorithm>
#include <chrono>

#include "fmt/chrono.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tools/doctor/flight.h"

namespace syncline::tools {
namespace {

using nlohmann::json;
using observe::FlightOperation;
using observe::FlightRank;

constexpr std::size_t kRowsMax = 24;  // then culprits and whoever differs come first

double seconds(Nanos span) { return static_cast<double>(span) / 1e9; }

std::string short_span(Nanos span) {
  const double s = seconds(std::max<Nanos>(span, 0));
  if (s >= 1) return fmt::format("{:.1f} s", s);
  return s >= 1e-3 ? fmt::format("{:.0f} ms", s * 1e3) : fmt::format("{:.0f} us", s * 1e6);
}

std::string wall_text(Nanos wall) {
  const auto time = static_cast<std::time_t>(wall / kSecond);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(time));
}

struct Row {
  std::string operation, state, awaits;
};

Row row_of(const FlightRank& rank) {
  const Nanos now = rank.dump->taken();
  const auto pending = rank.pending();
  Row row;
  const FlightOperation* shown = pending.empty() ? rank.last_started() : pending.front();
  if (shown == nullptr) {
    row.operation = "none";
  } else {
    row.operation = shown->label();
    if (shown->end) {
      row.state =
          fmt::format("{} {} ago", shown->code == Code::kOk ? "done" : to_string(shown->code),
                      short_span(now - *shown->end));
    } else if (shown->start) {
      row.state = fmt::format("runs for {}", short_span(now - *shown->start));
    }
    if (pending.size() > 1) row.state += fmt::format(", {} more run", pending.size() - 1);
    if (!shown->awaits.empty()) {
      row.awaits = observe::ranks_text(shown->awaits);
      const auto named = static_cast<int>(shown->awaits.size());
      if (shown->awaited > named) row.awaits += fmt::format(" +{}", shown->awaited - named);
    }
  }
  const std::string end = rank.end_text();
  if (!end.empty()) row.state += (row.state.empty() ? "" : "; ") + end;
  return row;
}

void print_rows(const FlightSet& set, const observe::FlightVerdict& verdict, std::string& text) {
  std::vector<const FlightRank*> order;
  for (const FlightRank& rank : set.ranks) order.push_back(&rank);
  const auto blamed = [&](const FlightRank* rank) {
    return std::find(verdict.culprits.begin(), verdict.culprits.end(), rank->rank) !=
           verdict.culprits.end();
  };
  if (order.size() > kRowsMax) std::stable_partition(order.begin(), order.end(), blamed);
  text += fmt::format("{:>6}  {:<10} {:<46} {:<34} {}\n", "rank", "host", "last operation", "state",
                      "waits for");
  for (std::size_t i = 0; i < order.size() && i < kRowsMax; ++i) {
    const Row row = row_of(*order[i]);
    text += fmt::format("{}{:>5}  {:<10} {:<46} {:<34} {}\n", blamed(order[i]) ? '>' : ' ',
                        order[i]->rank, order[i]->dump->host.substr(0, 10), row.operation,
                        row.state, row.awaits);
    while (text[text.size() - 2] == ' ') text.erase(text.size() - 2, 1);
  }
  if (order.size() > kRowsMax) {
    text += fmt::format("        and {} more; --json has all\n", order.size() - kRowsMax);
  }
}

void print_failures(const FlightSet& set, std::string& text) {
  constexpr std::size_t kFailuresMax = 4;
  std::size_t shown = 0;
  for (const FlightRank& rank : set.ranks) {
    const FlightOperation* const failed = rank.first_failed();
    if (failed == nullptr) continue;
    if (++shown > kFailuresMax) continue;
    text += fmt::format("failed   rank {}: {}: {}: {}\n", rank.rank, failed->label(),
                        to_string(failed->code), failed->text);
  }
  if (shown > kFailuresMax) text += fmt::format("         and {} more\n", shown - kFailuresMax);
}

json operation_json(const FlightOperation& operation, const FlightRank& rank) {
  const Nanos now = rank.dump->taken();
  json out = {{"group", operation.comm}, {"op", operation.op}, {"what", operation.label()}};
  if (operation.start) out["age_s"] = seconds(now - *operation.start);
  if (operation.end) out["ended_ago_s"] = seconds(now - *operation.end);
  if (operation.start && operation.end) {
    out["took_s"] = seconds(std::max<Nanos>(*operation.end - *operation.start, 0));
  }
  if (operation.moved) out["moved_ago_s"] = seconds(now - *operation.moved);
  if (!operation.name.empty()) out["name"] = operation.name;
  if (!operation.end) {
    out["awaited"] = operation.awaited;
    out["awaits"] = operation.awaits;
  }
  if (operation.code != Code::kOk) {
    out["code"] = to_string(operation.code);
    out["peer"] = operation.peer;
    out["message"] = operation.text;
  }
  return out;
}

const char* kind_name(flight::Kind kind) {
  switch (kind) {
    case flight::Kind::kSuspected:
      return "suspected";
    case flight::Kind::kBack:
      return "back";
    case flight::Kind::kLost:
      return "lost";
    case flight::Kind::kMismatch:
      return "mismatch";
    case flight::Kind::kVerdict:
      return "verdict";
    case flight::Kind::kAbortSent:
      return "abort_sent";
    default:
      return "abort_received";
  }
}

json rank_json(const FlightRank& rank) {
  constexpr std::size_t kNotesMax = 32;
  json out = {{"rank", rank.rank},
              {"host", rank.dump->host},
              {"pid", rank.dump->header.pid},
              {"file", rank.dump->source},
              {"torn", rank.dump->torn},
              {"end", rank.end_text()},
              {"pending", json::array()},
              {"failed", json::array()},
              {"notes", json::array()},
              {"taken", wall_text(rank.dump->wall(rank.dump->taken()))}};
  const auto set = [&](const char* key, const FlightOperation* operation) {
    out[key] = operation == nullptr ? json(nullptr) : operation_json(*operation, rank);
  };
  set("last_enqueued", rank.enqueued ? &*rank.enqueued : nullptr);
  set("last_started", rank.last_started());
  set("last_done", rank.last_done());
  for (const FlightOperation* operation : rank.pending()) {
    out["pending"].push_back(operation_json(*operation, rank));
  }
  for (const auto& [key, operation] : rank.operations) {
    if (operation.code != Code::kOk) out["failed"].push_back(operation_json(operation, rank));
  }
  for (std::size_t i = rank.peers.size() - std::min(rank.peers.size(), kNotesMax);
       i < rank.peers.size(); ++i) {
    const observe::FlightPeer& peer = rank.peers[i];
    out["notes"].push_back({{"kind", kind_name(peer.kind)},
                            {"peer", peer.peer},
                            {"ago_s", seconds(rank.dump->taken() - peer.at)},
                            {"message", peer.text}});
  }
  return out;
}

}  // namespace

std::string flight_text(const FlightSet& set) {
  const observe::FlightVerdict verdict = observe::judge(set.ranks);
  const observe::FlightDump& first = set.dumps.front();
  std::size_t torn = 0;
  for (const observe::FlightDump& dump : set.dumps) torn += dump.torn;
  std::string text =
      fmt::format("job {}, {} ranks; {} records, taken {}{}\n", first.job, first.header.world_size,
                  set.ranks.size(), wall_text(first.wall(first.taken())),
                  torn == 0 ? "" : fmt::format("; {} torn entries", torn));
  print_rows(set, verdict, text);
  const std::vector<int> missing = observe::missing_ranks(set.ranks);
  if (!missing.empty())
    text += fmt::format("missing  no record of {}\n", observe::ranks_text(missing));
  for (const observe::GroupProgress& group : observe::compare_groups(set.ranks)) {
    if (group.comm != 1 && group.last_common == group.last_called) continue;
    text += fmt::format("group {:<3}{} ranks; last common call: {}", group.comm, group.size,
                        group.last_common == 0 ? std::string("none") : group.last_common_label);
    if (group.last_called > group.last_common) {
      text += fmt::format("; the furthest rank called #{}", group.last_called);
    }
    text += '\n';
  }
  print_failures(set, text);
  text += fmt::format("verdict  {}\n", verdict.text);
  if (!verdict.culprits.empty()) {
    text += fmt::format("culprit  {} ({})\n", observe::ranks_text(verdict.culprits), verdict.cause);
  }
  for (const std::string& evidence : verdict.evidence)
    text += fmt::format("         {}\n", evidence);
  if (!verdict.advice.empty()) text += fmt::format("next     {}\n", verdict.advice);
  return text;
}

std::string flight_json(const FlightSet& set) {
  json out = {{"schema", "syncline.flight/1"},
              {"problems", set.problems},
              {"ranks", json::array()},
              {"groups", json::array()}};
  if (!set.ranks.empty()) {
    const observe::FlightVerdict verdict = observe::judge(set.ranks);
    out["job"] = set.dumps.front().job;
    out["world_size"] = set.dumps.front().header.world_size;
    out["missing"] = observe::missing_ranks(set.ranks);
    out["verdict"] = {{"cause", verdict.cause},
                      {"culprits", verdict.culprits},
                      {"text", verdict.text},
                      {"evidence", verdict.evidence},
                      {"advice", verdict.advice}};
  }
  for (const FlightRank& rank : set.ranks) out["ranks"].push_back(rank_json(rank));
  for (const observe::GroupProgress& group : observe::compare_groups(set.ranks)) {
    out["groups"].push_back({{"group", group.comm},
                             {"size", group.size},
                             {"last_common", group.last_common},
                             {"last_common_what", group.last_common_label},
                             {"last_called", group.last_called}});
  }
  return out.dump(2, ' ', false, json::error_handler_t::replace);
}

}  // namespace syncline::tools
