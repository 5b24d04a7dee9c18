#include "tools/run/report.h"

#include <signal.h>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tools/cli/exit_code.h"
#include "tools/run/agent_link.h"

namespace syncline::tools {
namespace {

std::string cause_text(const ReportInput& in, int rank) {
  const RankEnd& end = *in.supervisor.end_of(rank);
  const auto index = static_cast<std::size_t>(rank);
  std::string text;
  const std::deque<std::string>& tail = in.stderr_tail(rank);
  if (!tail.empty()) {
    text += fmt::format("syncline run: last {} lines of rank {}'s stderr:\n", tail.size(), rank);
    for (const std::string& line : tail) text += fmt::format("    {}\n", line);
  }
  const char* hint = "";
  if (end.signal == SIGKILL) hint = " (often the kernel, out of memory: see dmesg)";
  if (end.exit_code() == kExitRequeue) hint = " (asks to be started again)";
  return text + fmt::format("syncline run: rank {} on {} failed first: {}{}\n", rank,
                            in.hosts[index], describe(end), hint);
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
      left += fmt::format("{}{}", left.empty() ? "" : ", ", rank);
    } else if (s.is_collateral(rank)) {
      collateral +=
          fmt::format("{}rank {} ({})", collateral.empty() ? "" : ", ", rank, describe(*end));
    } else if (!end->failed()) {
      early += fmt::format("{}{}", early.empty() ? "" : ", ", rank);
    }
  }
  std::string text;
  if (!left.empty())
    text += fmt::format("syncline run: still there after SIGKILL: ranks {}\n", left);
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
  for (int rank = 0; rank < static_cast<int>(in.hosts.size()); ++rank) {
    const RankEnd end = s.end_of(rank).value_or(RankEnd{});
    json entry = {{"rank", rank},
                  {"host", in.hosts[static_cast<std::size_t>(rank)]},
                  {"exit_code", end.exit_code()},
                  {"collateral", s.is_collateral(rank)}};
    if (end.signal != 0) entry["signal"] = signal_name(end.signal);
    ranks.push_back(std::move(entry));
  }
  json summary = {{"schema", "syncline.run/1"},
                  {"exit_code", s.exit_code()},
                  {"wall_s", in.wall_s},
                  {"first_cause", nullptr},
                  {"ranks", std::move(ranks)}};
  if (s.first_cause()) {
    const int rank = *s.first_cause();
    summary["first_cause"] = {{"rank", rank},
                              {"host", in.hosts[static_cast<std::size_t>(rank)]},
                              {"what", describe(*s.end_of(rank))},
                              {"stderr", in.stderr_tail(rank)}};
  }
  if (*stop_text(s) != '\0') summary["stopped"] = stop_text(s);
  return summary.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace syncline::tools
