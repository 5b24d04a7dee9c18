// One server of a key-value store, from its links to its end.
#pragma once

#include "ps/links.h"
#include "syncline/status.h"

namespace syncline::ps {

// Blocks until every worker has left, in order or by its death, neither of which is an error. The
// engine runs; its owner stops it afterwards.
Status run_server(ServerLinks links);

}  // namespace syncline::ps
