#include "session/stores.h"

#include "session/kvstore_impl.h"

namespace syncline::session {

std::shared_ptr<KVStore::Impl> open_store(Session::Impl& session, const KVStoreOptions& options) {
  const auto number = session.next_store++;
  if (!session.store.servers.empty() && !session.aggregates) {
    return std::make_shared<KVStore::Impl>(session.context, session.store, number, nullptr,
                                           options);
  }
  auto share = StoreShare::open(*session.world_impl);
  session.shares.push_back(share);
  return std::make_shared<KVStore::Impl>(session.context, share->worker_links(), number, share,
                                         options);
}

}  // namespace syncline::session
