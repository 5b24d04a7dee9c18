#include "tools/cli/version.h"

#include "fmt/format.h"
#include "kernels/reduce.h"
#include "syncline/version.h"

namespace syncline::tools {

std::string version_text() {
#if defined(__clang__)
  const char* const compiler = "clang " __clang_version__;
#else
  const char* const compiler = "gcc " __VERSION__;
#endif
  return fmt::format("syncline {}\ncompiler: {}\ntransports: inproc shm tcp\nSIMD target: {}",
                     SYNCLINE_VERSION_STRING, compiler, kernels::target_name());
}

}  // namespace syncline::tools
