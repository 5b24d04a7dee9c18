// run_server: a server process's work, ServerCore over an engine's messages. run_relay: the same
// for the workers of a host.
#pragma once

#include "ps/client.h"
#include "ps/links.h"

namespace syncline::ps {

// Serves until every worker has left or is gone; the calling thread moves the bytes. Ok then; else
// why the server cannot go on (kShutdown: its own session ended).
Status run_server(const ServerLinks& links);
// Until its workers have left; then all that they pushed is with the servers, and so is the news
// that this client has left.
Status run_relay(const ServerLinks& links, const std::shared_ptr<Client>& servers);

}  // namespace syncline::ps
