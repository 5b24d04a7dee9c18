// The `syncline` program. Never links LibTorch: the trainer is a program of its own.
#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "fmt/format.h"
#include "syncline/status.h"
#include "tools/bench/command.h"
#include "tools/cli/exit_code.h"
#include "tools/cli/invocation.h"
#include "tools/cli/train.h"
#include "tools/cli/version.h"
#include "tools/doctor/command.h"
#include "tools/key/command.h"
#include "tools/run/command.h"
#include "tools/serve/command.h"

namespace syncline::tools {
namespace {

constexpr const char* kFooter = R"(Examples:
  syncline doctor                        what this machine offers and lacks
  syncline run -np 2 ./train             start two ranks here
  syncline train --data fashion-mnist    train the demo's CNN
  syncline bench all_reduce -np 2        measure a collective

`syncline COMMAND --help` tells more about each.)";

// CLI11 reads the words in reverse order.
void parse(CLI::App& app, std::vector<std::string> words) {
  if (!words.empty()) {
    const auto named =
        app.get_subcommands([&](const CLI::App* c) { return c->get_name() == words[0]; });
    if (named.empty() && !words[0].starts_with('-')) {
      throw CLI::ExtrasError("unknown command '" + words[0] + "'", CLI::ExitCodes::ExtrasError);
    }
    if (!named.empty()) {
      const std::vector<std::string> rest =
          normalize(*named[0], {words.begin() + 1, words.end()}, words[0] == "run");
      words.resize(1);
      words.insert(words.end(), rest.begin(), rest.end());
    }
  }
  std::reverse(words.begin(), words.end());
  app.parse(std::move(words));
}

int run_main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "train") return exec_trainer(argv + 1);
  CLI::App app("Syncline keeps the copies of a model in step while many workers train it.",
               "syncline");
  Invocation invocation;
  app.require_subcommand(1);
  app.footer(kFooter);
  app.set_version_flag("--version", version_text);
  add_run_command(app, invocation);
  app.add_subcommand("train", "Train a model on images (the demo's trainer)");
  add_bench_command(app, invocation);
  add_doctor_command(app, invocation);
  add_key_command(app, invocation);
  add_serve_command(app, invocation);
  try {
    parse(app, {argv + 1, argv + argc});
  } catch (const CLI::Success& done) {  // --help, --version
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    return complain(kExitUsage, fmt::format("{}; see syncline --help", error.what()));
  }
  return invocation.action ? invocation.action() : kExitUsage;
}

}  // namespace
}  // namespace syncline::tools

int main(int argc, char** argv) {
  using namespace syncline::tools;
  try {
    return run_main(argc, argv);
  } catch (const syncline::Error& error) {
    return complain(exit_code_of(error.status()), error.status().to_string());
  } catch (const std::exception& error) {
    return complain(kExitFailure, error.what());
  }
}
