#include "tools/doctor/command.h"

#include <unistd.h>

#include <algorithm>
#include <memory>

#include "CLI/CLI.hpp"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "tools/cli/exit_code.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/flight.h"
#include "tools/doctor/settings.h"

namespace syncline::tools {
namespace {

constexpr const char* kDoctorFooter =
    R"(Prints a line for each thing looked at: OK, INFO, WARN (works, but read on) or FAIL (a job
cannot run), with the command that mends it. Takes less than five seconds and needs no job.
Exit code: 0, or 3 after a FAIL.

With --dump: reads the flight records of a job's ranks instead, and says what each rank did last and
which is to blame. Records are written when an operation or a rank fails and on SIGUSR2 to
`syncline run` or to a rank. Name files or folders; without names the usual folders are searched.
  syncline doctor --dump
  syncline doctor --dump /tmp/syncline-1000/8f3a61c2 --json
Exit code: 0, or 2 when nothing could be read.)";

struct DoctorArguments {
  bool json = false;
  bool settings = false;
  bool dump = false;
  std::vector<std::string> records;
};

Findings examine() {
  Findings findings;
  for (const auto check : {check_job, check_environment_names, check_network, check_memory,
                           check_processor, check_packages, check_gpu}) {
    check(findings);
  }
  return findings;
}

void print_json(const Findings& findings, bool with_settings) {
  using nlohmann::json;
  json list = json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"level", to_string(finding.level)},
                    {"topic", finding.topic},
                    {"text", finding.text},
                    {"fix", finding.fix}});
  }
  json all = {{"schema", "syncline.doctor/1"}, {"findings", std::move(list)}};
  if (with_settings) {
    for (const Setting& setting : settings(env)) {
      all["settings"].push_back(
          {{"name", setting.variable}, {"value", setting.value}, {"origin", setting.origin}});
    }
  }
  fmt::print("{}\n", all.dump(2, ' ', false, json::error_handler_t::replace));
}

void print_text(const Findings& findings, bool color, bool quiet) {
  constexpr int kColors[] = {36, 32, 33, 31};
  for (const Finding& finding : findings) {
    if (quiet && (finding.level == Level::kOk || finding.level == Level::kInfo)) continue;
    const std::string level = fmt::format("{:<4}", to_string(finding.level));
    const std::string shown =
        color ? fmt::format("\x1b[{}m{}\x1b[0m", kColors[static_cast<int>(finding.level)], level)
              : level;
    fmt::print("{}  {:<14} {}\n", shown, finding.topic, finding.text);
    if (!finding.fix.empty()) fmt::print("      {:<14} -> {}\n", "", finding.fix);
  }
}

int doctor(const DoctorArguments& arguments, const Invocation& invocation) {
  if (arguments.dump) return show_flights(arguments.records, arguments.json);
  if (!arguments.records.empty()) {
    return complain(kExitUsage, "doctor takes names with --dump only; see syncline doctor --help");
  }
  const Findings findings = examine();
  if (arguments.json) {
    print_json(findings, arguments.settings);
  } else {
    print_text(findings, invocation.use_color(STDOUT_FILENO), invocation.quiet);
    if (arguments.settings) {
      fmt::print("\nSettings:\n");
      for (const Setting& setting : settings(env)) {
        fmt::print("  {:<26} {:<42} {}\n", setting.variable, setting.value, setting.origin);
      }
    }
  }
  const bool failed = std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.level == Level::kFail;
  });
  return failed ? kExitEnvironment : kExitOk;
}

}  // namespace

const char* to_string(Level level) {
  switch (level) {
    case Level::kInfo:
      return "INFO";
    case Level::kOk:
      return "OK";
    case Level::kWarn:
      return "WARN";
    case Level::kFail:
      break;
  }
  return "FAIL";
}

void add_doctor_command(CLI::App& app, Invocation& invocation) {
  CLI::App* const command = app.add_subcommand("doctor", "Show what this machine offers and lacks");
  command->footer(kDoctorFooter);
  const auto arguments = std::make_shared<DoctorArguments>();
  command->add_flag("--json", arguments->json, "Print JSON");
  command->add_flag("--settings", arguments->settings,
                    "Also show each setting, its value and where it comes from");
  command->add_flag("--dump", arguments->dump, "Read the flight records of a job");
  command->add_option("records", arguments->records, "With --dump: files or folders");
  add_output_options(*command, invocation);
  command->callback([arguments, &invocation] {
    invocation.action = [arguments, &invocation] { return doctor(*arguments, invocation); };
  });
}

}  // namespace syncline::tools
