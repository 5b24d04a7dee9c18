// Where a session's stores live.
#pragma once

#include <memory>

#include "session/session_impl.h"
#include "syncline/kvstore.h"

namespace syncline::session {

// Collective: all workers open their stores in the same order. Blocks; throws Error.
std::shared_ptr<KVStore::Impl> open_store(Session::Impl& session, const KVStoreOptions& options);

}  // namespace syncline::session
