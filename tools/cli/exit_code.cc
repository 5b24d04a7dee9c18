#include "tools/cli/exit_code.h"

namespace syncline::tools {

int exit_code_of(const Status& status) {
  switch (status.code()) {
    case Code::kOk:
      return kExitOk;
    case Code::kInvalidArgument:
      return kExitUsage;
    case Code::kFailedPrecondition:
    case Code::kUnsupported:
    case Code::kExhausted:
      return kExitEnvironment;
    case Code::kTimeout:
      return kExitTimeout;
    default:
      return kExitFailure;
  }
}

}  // namespace syncline::tools
