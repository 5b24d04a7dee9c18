// run_server: a server process's work, ServerCore over an engine's messages.
#pragma once

#include "ps/links.h"

namespace syncline::ps {

// Serves until every worker has left or is gone; the calling thread moves the bytes. Ok then; else
// why the server cannot go on (kShutdown: its own session ended).
Status run_server(const ServerLinks& links);

}  // namespace syncline::ps
