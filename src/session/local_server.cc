#include "session/local_server.h"

#include "ps/run_server.h"
#include "session/session_impl.h"

namespace syncline::session {

LocalServer::LocalServer(std::shared_ptr<SessionContext> context, ps::ServerLinks server_links)
    : context_(std::move(context)), links_(std::move(server_links)) {
  context_->engine->start();
}

LocalServer::~LocalServer() { context_->engine->stop(kLinger); }

ServerThreads::ServerThreads(std::vector<std::unique_ptr<LocalServer>> servers)
    : servers_(std::move(servers)) {}

void ServerThreads::start() {
  for (const auto& server : servers_) {
    threads_.emplace_back("syncline-server", [links = server->links()] {
      const Status status = ps::run_server(links);
      if (!status.ok()) links.log("the server ended: " + status.to_string());
    });
  }
}

}  // namespace syncline::session
