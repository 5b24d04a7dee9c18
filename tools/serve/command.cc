#include "tools/serve/command.h"

#include <signal.h>

#include "CLI/CLI.hpp"
#include "syncline/server.h"
#include "tools/cli/exit_code.h"

namespace syncline::tools {
namespace {

constexpr const char* kServeFooter = R"(Its place comes from the environment, as those of ranks do:
  SYNCLINE_SERVERS, SYNCLINE_SERVER_ID   how many servers the job has, and which of them this is
  SYNCLINE_WORLD_SIZE                    how many ranks it has
and the job's SYNCLINE_RENDEZVOUS, SYNCLINE_RUN_ID and key. The ranks need SYNCLINE_SERVERS too.
`syncline run --servers N` starts servers and sets all of these.

Ends with 0 when all ranks have left. Until they have, SIGTERM does not end it: they decide.)";

int serve_job() {
  signal(SIGUSR1, SIG_IGN);  // a scheduler's warning to the ranks
  signal(SIGUSR2, SIG_IGN);  // asks ranks for their flight records; a server keeps none
  serve();
  return kExitOk;
}

}  // namespace

void add_serve_command(CLI::App& app, Invocation& invocation) {
  CLI::App* const command =
      app.add_subcommand("serve", "Be a server of a job, beside its ranks (see run --servers)");
  command->footer(kServeFooter);
  command->callback([&invocation] { invocation.action = serve_job; });
}

}  // namespace syncline::tools
