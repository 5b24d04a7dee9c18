#include "session/transports.h"

#include <sstream>

namespace syncline::session {

Result<Transports> parse_transports(const std::string& list) {
  if (list.empty() || list == "auto") return Transports{};
  Transports transports{false, false};
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == "shm") {
      transports.shm = true;
    } else if (name == "tcp") {
      transports.tcp = true;
    } else if (name == "ucx" || name == "cuda" || name == "nccl") {
      return Status(Code::kUnsupported, "transport '" + name + "' is planned; use shm or tcp");
    } else {
      return Status(Code::kInvalidArgument, "unknown transport '" + name + "' in '" + list +
                                                "'; a process knows shm and tcp");
    }
  }
  return transports;
}

}  // namespace syncline::session
