// `syncline serve`
#pragma once

#include "tools/cli/invocation.h"

namespace syncline::tools {

void add_serve_command(CLI::App& app, Invocation& invocation);

}  // namespace syncline::tools
