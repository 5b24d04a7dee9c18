#include "tools/run/report.h"

#include <signal.h>

#include "cluster/process_name.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tools/cli/exit_code.h"
#include "tools/run/agent_link.h"

namespace syncline::tools {
namespace {

std::string reported_name(const ReportInput& in, int number) {
  return cluster::process_name(number, in.supervisor.ranks());
}

std::string cause_text(const ReportInput& in, int rank) {
  const RankEnd& end = *in.supervisor.end_of(rank);
  const auto index = static_cast<std::size_t>(rank);
  std::string text;
  const std::deque<std::string>& tail = in.stderr_tail(rank);
  if (!tail.empty()) {
    text += fmt::format("syncline run: last {} lines of {}'s stderr:\n", tail.size(),
                        reported_name(in, rank));
    for (const std::string& line : tail) text += fmt::format("    {}\n", line);
  }
  const char* hint = "";
  if (end.signal == SIGKILL) hint = " (often the kernel, out of memory: see dmesg)";
  if (in.supervisor.outlived_ranks(rank)) hint = " (it had not ended --grace after the last rank)";
  if (end.exit_code() == kExitRequeue) hint = " (asks to be started again)";
  return text + fmt::format("syncline run: {} on {} failed first: {}{}\n", reported_name(in, rank),
                            in.hosts[index], describe(end), hint);
}

nlohmann::json number_json(const Supervisor& s, int number) {
  if (number < s.ranks()) return {{"rank", number}};
  return {{"server", number - s.ranks()}};
}

const char* stop_text(const Supervisor& s) {
  switch (s.stop()) {
    case Supervisor::Stop::kInterrupt:
      return "interrupted";
    case Supervisor::Stop::kTerminated:
      return "stopped by SIGTERM";
    case Supervisor::Stop::kTimeLimit:
      return "stopped: its time limit has passed (--time-limit)";
    case Supervisor::Stop::kOutputClosed:
      return "stopped: nobody reads its output any more";
    default:
      return "";
  }
}

}  // namespace

std::string describe(const RankEnd& end) {
  if (end.lost) return "the connection to its host's agent was lost";
  if (end.signal != 0) return fmt::format("killed by {}", signal_name(end.signal));
  return fmt::format("exit code {}", end.code);
}

std::string failure_text(const ReportInput& in) {
  const Supervisor& s = in.supervisor;
  if (s.stop() == Supervisor::Stop::kNone) return "";
  std::string collateral;
  std::string early;
  std::string left;
  for (int rank = 0; rank < static_cast<int>(in.hosts.size()); ++rank) {
    const auto& end = s.end_of(rank);
    if (!end.has_value()) {
      left += fmt::format("{}{}", left.empty() ? "" : ", ", reported_name(in, rank));
    } else if (s.is_collateral(rank)) {
      collateral += fmt::format("{}{} ({})", collateral.empty() ? "" : ", ",
                                reported_name(in, rank), describe(*end));
    } else if (!end->failed() && rank < s.ranks()) {
      early += fmt::format("{}{}", early.empty() ? "" : ", ", rank);
    }
  }
  std::string text;
  if (!left.empty()) text += fmt::format("syncline run: still there after SIGKILL: {}\n", left);
  if (!early.empty() && s.first_cause())
    text += fmt::format("syncline run: ended with exit code 0: ranks {}\n", early);
  if (!collateral.empty()) text += fmt::format("syncline run: collateral: {}\n", collateral);
  if (s.first_cause()) return text + cause_text(in, *s.first_cause());
  return text + fmt::format("syncline run: the job was {}{}\n", stop_text(s),
                            s.killed() ? "; ranks that did not end in time were killed" : "");
}

std::string summary_json(const ReportInput& in) {
  using nlohmann::json;
  const Supervisor& s = in.supervisor;
  json ranks = json::array();
  json servers = json::array();
  for (int rank = 0; rank < static_cast<int>(in.hosts.size()); ++rank) {
    const RankEnd end = s.end_of(rank).value_or(RankEnd{});
    json entry = number_json(s, rank);
    entry.update({{"host", in.hosts[static_cast<std::size_t>(rank)]},
                  {"exit_code", end.exit_code()},
                  {"collateral", s.is_collateral(rank)}});
    if (end.signal != 0) entry["signal"] = signal_name(end.signal);
    (rank < s.ranks() ? ranks : servers).push_back(std::move(entry));
  }
  json summary = {{"schema", "syncline.run/1"},
                  {"exit_code", s.exit_code()},
                  {"wall_s", in.wall_s},
                  {"first_cause", nullptr},
                  {"ranks", std::move(ranks)}};
  if (!servers.empty()) summary["servers"] = std::move(servers);
  if (s.first_cause()) {
    const int rank = *s.first_cause();
    json cause = number_json(s, rank);
    cause.update({{"host", in.hosts[static_cast<std::size_t>(rank)]},
                  {"what", describe(*s.end_of(rank))},
                  {"stderr", in.stderr_tail(rank)}});
    summary["first_cause"] = std::move(cause);
  }
  if (*stop_text(s) != '\0') summary["stopped"] = stop_text(s);
  return summary.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace syncline::tools
