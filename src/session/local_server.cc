#include "session/local_server.h"

#include "ps/run_server.h"
#include "session/session_impl.h"

namespace syncline::session {

LocalServer::LocalServer(std::shared_ptr<SessionContext> context, ps::ServerLinks server_links,
                         collective::AggregationGroup aggregation)
    : context_(std::move(context)),
      links_(std::move(server_links)),
      aggregation_(std::move(aggregation)) {
  context_->engine->start();
}

void LocalServer::start_aggregator() {
  std::make_shared<collective::Aggregator>(context_->engine, aggregation_, links_.log)->start();
}

LocalServer::~LocalServer() { context_->engine->stop(kLinger); }

ServerThreads::ServerThreads(std::vector<std::unique_ptr<LocalServer>> servers)
    : servers_(std::move(servers)) {}

void ServerThreads::start() {
  for (const auto& server : servers_) {
    server->start_aggregator();
    threads_.emplace_back("syncline-server", [links = server->links()] {
      const Status status = ps::run_server(links);
      if (!status.ok()) links.log("the server ended: " + status.to_string());
    });
  }
}

}  // namespace syncline::session
