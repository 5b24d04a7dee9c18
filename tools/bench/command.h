// `syncline bench`
#pragma once

#include "tools/cli/invocation.h"

namespace syncline::tools {

void add_bench_command(CLI::App& app, Invocation& invocation);

}  // namespace syncline::tools
