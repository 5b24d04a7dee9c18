#include "tools/cli/train.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "tools/cli/exit_code.h"
#include "tools/cli/invocation.h"

namespace syncline::tools {

int exec_trainer(char** argv) {
  std::error_code error;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const auto& candidate : {folder / "syncline-train", folder / "train" / "syncline-train",
                                folder.parent_path() / "libexec" / "syncline" / "syncline-train"}) {
    if (access(candidate.c_str(), X_OK) == 0) execv(candidate.c_str(), argv);
  }
  execvp("syncline-train", argv);
  return complain(
      kExitEnvironment,
      "train: the program syncline-train is not installed beside syncline; build with LibTorch "
      "(apt-get install libtorch-dev, then cmake -DSYNCLINE_BUILD_TORCH=ON)");
}

}  // namespace syncline::tools
