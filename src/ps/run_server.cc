#include "ps/run_server.h"

#include "ps/server.h"

namespace syncline::ps {

namespace {

Status serve_all(const ServerLinks& links, const std::shared_ptr<Client>& servers) {
  Server server(links, servers);
  for (;;) {
    server.step();
    if (server.is_over()) return {};
    server.wait();
  }
}

}  // namespace

Status run_server(const ServerLinks& links) { return serve_all(links, nullptr); }

Status run_relay(const ServerLinks& links, const std::shared_ptr<Client>& servers) {
  const Status served = serve_all(links, servers);
  const Status flushed = links.engine->wait(*servers->flush(0));
  servers->leave();
  return served.ok() ? flushed : served;
}

}  // namespace syncline::ps
