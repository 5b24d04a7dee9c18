#include "session/stores.h"

#include <algorithm>
#include <set>

#include "session/kvstore_impl.h"
#include "session/settings.h"

namespace syncline::session {
namespace {

ps::Rules rules_of(const KVStoreOptions& options) {
  ps::Rules rules;
  rules.bound = options.consistency().bound();
  rules.combine = static_cast<ps::Combine>(options.reduce());
  rules.scale_by_age = options.scale_by_age();
  return rules;
}

// Blocks; throws Error.
std::shared_ptr<ps::Client> open_client(ps::WorkerLinks links, std::uint16_t number,
                                        const KVStoreOptions& options) {
  auto client = std::make_shared<ps::Client>(std::move(links), number);
  const Status opened =
      client->open(rules_of(options), options.timeout().count() * kMillisecond);  // 0: the links'
  if (opened.ok()) return client;
  client->leave();  // nobody is to wait for this worker
  throw Error(opened);
}

// Some workers share a host that some server is not on. The same on all ranks.
bool hosts_could_sum(const SessionContext& context) {
  const std::vector<int>& hosts = context.host_of;
  return std::any_of(hosts.begin(), hosts.end(), [&](int host) {
    return std::count(hosts.begin(), hosts.end(), host) > 1 &&
           std::any_of(context.server_hosts.begin(), context.server_hosts.end(),
                       [host](int other) { return other != host; });
  });
}

// Collective: all ranks must want the same. Blocks; throws Error.
bool hosts_sum(const Session::Impl& session, const KVStoreOptions& options) {
  bool wanted = options.host_sums();
  override_flag("SYNCLINE_HOST_SUMS", wanted);
  const SessionContext& context = *session.context;
  wanted = wanted && options.consistency().bound() == 0 &&
           (!context.reproducible || sums_canonically(context.host_of));
  std::int64_t found[] = {wanted ? 1 : 0, wanted ? 0 : 1};  // somebody does, somebody does not
  Communicator::Impl::Call call;
  call.kind = Collective::kAllReduce;
  call.in = {found, 2};
  call.out = {found, 2};
  call.count = 2;
  call.op = ReduceOp::kMax;
  CallOptions named;
  named.name = "kvstore";
  session.world_impl->start(call, named).wait();
  if (found[0] + found[1] == 1) return wanted;
  throw Error(Status(Code::kMismatch,
                     "the workers opened this store with different options; use the same "
                     "consistency, host_sums and SYNCLINE_HOST_SUMS on all of them")
                  .with_operation("kvstore"));
}

// Tensors are a store of their own, in which one worker of each host counts.
StoreClients open_summing(Session::Impl& session, std::shared_ptr<ps::Client> tables,
                          const KVStoreOptions& options) {
  StoreClients clients;
  clients.tables = std::move(tables);
  const std::vector<int>& host_of = session.context->host_of;
  ps::WorkerLinks links = session.store;
  links.workers = static_cast<int>(std::set<int>(host_of.begin(), host_of.end()).size());
  clients.tensors = open_client(std::move(links), session.next_store++, options);
  clients.relay = HostRelay::open(*session.world_impl, clients.tensors);
  session.relays.push_back(clients.relay);
  if (!clients.relay->leads()) clients.tensors->leave();
  clients.sums = clients.tensors;
  if (clients.relay->is_needed()) {
    clients.sums = open_client(clients.relay->worker_links(), clients.tensors->store(), options);
  }
  return clients;
}

}  // namespace

std::shared_ptr<KVStore::Impl> open_store(Session::Impl& session, const KVStoreOptions& options) {
  const auto number = session.next_store++;
  const bool has_servers = !session.store.servers.empty() && !session.aggregates;
  std::shared_ptr<StoreShare> share;
  if (!has_servers) {
    share = StoreShare::open(*session.world_impl);
    session.shares.push_back(share);
  }
  const bool sums = has_servers && hosts_could_sum(*session.context) && hosts_sum(session, options);
  auto client = open_client(has_servers ? session.store : share->worker_links(), number, options);
  StoreClients clients = sums ? open_summing(session, std::move(client), options)
                              : StoreClients{client, client, client, nullptr};
  return std::make_shared<KVStore::Impl>(session.context, std::move(clients), std::move(share),
                                         options);
}

}  // namespace syncline::session
