// Exit codes of every subcommand.
#pragma once

#include "syncline/status.h"

namespace syncline::tools {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;        // the command line or an input file is wrong
inline constexpr int kExitEnvironment = 3;  // this machine or its settings do not serve
inline constexpr int kExitRequeue = 85;     // a rank asks to be started again
inline constexpr int kExitTimeout = 124;
inline constexpr int kExitInterrupted = 130;
inline constexpr int kExitSignalBase = 128;

// The exit code that fits an error; kExitOk for ok.
int exit_code_of(const Status& status);

}  // namespace syncline::tools
