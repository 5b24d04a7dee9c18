#include "tools/key/command.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "CLI/CLI.hpp"
#include "base/env.h"
#include "cluster/key.h"
#include "fmt/format.h"
#include "tools/cli/exit_code.h"

namespace syncline::tools {
namespace {

struct KeyArguments {
  std::string file;
  bool force = false;
};

int create_key(const KeyArguments& arguments, const Invocation& invocation) {
  const auto refuse = [](const Status& status) {
    return complain(exit_code_of(status), status.message());
  };
  std::string path = arguments.file;
  if (path.empty()) {
    Result<std::string> found = cluster::default_key_path(env);
    if (!found.ok()) return refuse(found.status());
    path = found.value();
  }
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::symlink_status(path, error))) {
    if (!arguments.force) {
      return complain(kExitUsage,
                      fmt::format("{} exists; running jobs may use it. --force replaces it", path));
    }
    if (unlink(path.c_str()) != 0) {
      return complain(kExitEnvironment,
                      fmt::format("cannot replace {}: {}", path, std::strerror(errno)));
    }
  }
  const Result<cluster::JobKey> key = cluster::JobKey::generate();
  if (!key.ok()) return refuse(key.status());
  const Status status = cluster::create_key_file(path, key.value());
  if (!status.ok()) return refuse(status);
  if (!invocation.quiet) {
    fmt::print("Wrote a new job key to {}.\n", path);
    if (arguments.file.empty()) {
      fmt::print("Copy it to the other hosts of a job (scp -p), unless they share this home.\n");
    } else {
      fmt::print("Ranks find it with SYNCLINE_KEY_FILE={}.\n", path);
    }
  }
  return kExitOk;
}

}  // namespace

void add_key_command(CLI::App& app, Invocation& invocation) {
  CLI::App* const command =
      app.add_subcommand("key", "Make the secret by which ranks know each other");
  command->require_subcommand(1);
  CLI::App* const create =
      command->add_subcommand("create", "Write a new job key, readable by you only");
  create->footer(
      "Ranks that another launcher started (mpirun, srun, torchrun) on several hosts prove with "
      "this key that they\n"
      "belong to the job. `syncline run` makes a key of its own for each job and needs none.");
  const auto arguments = std::make_shared<KeyArguments>();
  create->add_option("--file", arguments->file, "Where (default: ~/.config/syncline/job.key)");
  create->add_flag("--force", arguments->force, "Replace an existing key");
  add_output_options(*create, invocation);
  create->callback([arguments, &invocation] {
    invocation.action = [arguments, &invocation] { return create_key(*arguments, invocation); };
  });
}

}  // namespace syncline::tools
