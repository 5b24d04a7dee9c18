// `syncline train`: a program of its own, since it alone links LibTorch.
#pragma once

namespace syncline::tools {

// Becomes `syncline-train`, found beside this program, in ../libexec/syncline or in PATH. `argv[0]`
// is "train"; the rest is passed on. Returns only on failure, with the exit code.
int exec_trainer(char** argv);

}  // namespace syncline::tools
