#include "ps/run_server.h"

#include "ps/server.h"

namespace syncline::ps {

Status run_server(const ServerLinks& links) {
  Server server(links);
  for (;;) {
    server.step();
    if (server.is_over()) return {};
    server.wait();
  }
}

}  // namespace syncline::ps
