// `syncline run`
#pragma once

#include "tools/cli/invocation.h"

namespace syncline::tools {

void add_run_command(CLI::App& app, Invocation& invocation);

}  // namespace syncline::tools
