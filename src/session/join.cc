// init(): from the environment of one process to a session.
#include <algorithm>

#include "base/env.h"
#include "cluster/crypto.h"
#include "cluster/healer.h"
#include "cluster/host_identity.h"
#include "cluster/rank_env.h"
#include "cluster/rendezvous.h"
#include "session/log.h"
#include "session/session_impl.h"
#include "session/settings.h"
#include "session/transports.h"
#include "transport/shm/shm.h"

namespace syncline {
namespace {

template <class T>
T value_or_throw(Result<T> result) {
  throw_if_error(result.status());
  return std::move(result).value();
}

// What joining needs from start to end.
struct Joining {
  SessionOptions options;
  cluster::RankEnv env;
  cluster::JobKey key;
  session::Transports transports;
  std::shared_ptr<SessionContext> context;
  std::unique_ptr<transport::shm::Listener> shm_listener;
  cluster::View view;
  cluster::LogLine log;
  MonotonicClock* clock = nullptr;

  const cluster::Member& self() const { return view.members[static_cast<std::size_t>(env.rank)]; }
};

// Lives as long as the session.
struct Wiring {
  MonotonicClock clock;
  std::unique_ptr<cluster::Healer> healer;
};

std::string label_of(const cluster::Member& member) {
  return "rank " + std::to_string(member.rank) + " (host " + member.host_name + ", pid " +
         std::to_string(member.pid) + ")";
}

std::vector<transport::tcp::Fd> meet(Joining& join) {
  cluster::RendezvousConfig config;
  config.uri = join.env.rendezvous;
  config.listen_fd = join.env.rendezvous_fd;
  config.world_size = join.env.world_size;
  config.one_host = join.env.one_host();
  config.run_id = join.env.run_id;
  config.key = join.key;
  config.insecure = join.options.insecure;
  config.interfaces = value_or_throw(cluster::interface_filter(join.options.ifname, env));
  if (!join.options.port_range.empty()) {
    config.ports = value_or_throw(transport::tcp::parse_port_range(join.options.port_range));
  }
  config.timeout = join.options.connect_timeout.count() * kMillisecond;
  config.log = join.log;
  cluster::Member self = cluster::describe_self(join.env.rank);
  if (join.shm_listener != nullptr) self.shm_name = join.shm_listener->name();
  auto joined = value_or_throw(
      cluster::rendezvous(join.context->engine->poller(), *join.clock, config, std::move(self)));
  join.view = std::move(joined.view);
  return std::move(joined.data_listeners);
}

bool same_host(const cluster::Member& a, const cluster::Member& b) {
  return a.host_id == b.host_id && !a.shm_name.empty() && !b.shm_name.empty();
}

transport::shm::Endpoints connect_shm(Joining& join, int local_ranks) {
  const cluster::Member& self = join.self();
  std::vector<transport::shm::Peer> peers;
  for (const cluster::Member& member : join.view.members) {
    if (member.rank == self.rank || !same_host(member, self)) continue;
    peers.push_back({member.rank, member.incarnation, member.shm_name, label_of(member)});
  }
  if (peers.empty()) return {};
  transport::shm::Self me;
  me.rank = self.rank;
  me.incarnation = self.incarnation;
  me.ring_capacity = ring_capacity(local_ranks);
  me.poller = &join.context->engine->poller();
  const std::string purpose = "syncline shm " + std::to_string(join.view.job);
  const cluster::Digest token =
      cluster::hmac_sha256(cluster::part(join.key.bytes()), {cluster::part(purpose)});
  std::transform(token.begin(), token.end(), me.token.begin(),
                 [](unsigned char byte) { return std::byte{byte}; });
  const Nanos deadline = monotonic_now() + join.options.connect_timeout.count() * kMillisecond;
  auto endpoints = value_or_throw(transport::shm::connect(*join.shm_listener, me, peers, deadline));
  if (endpoints.size() < peers.size()) {
    join.log("no room for shared memory; " + std::to_string(peers.size() - endpoints.size()) +
             " local peers are reached over TCP (free memory or raise the container's limit)");
  }
  return endpoints;
}

std::unique_ptr<transport::Endpoint> make_tcp(Joining& join, cluster::Healer& healer,
                                              const cluster::Member& member,
                                              cluster::AuthenticatedSocket socket) {
  cluster::LinkOptions link;
  link.self_rank = join.env.rank;
  link.peer_rank = member.rank;
  link.peer_host = member.host_name;
  link.view = join.view.view;
  link.self_incarnation = join.self().incarnation;
  link.peer_incarnation = member.incarnation;
  link.silence = join.options.silence.count() * kMillisecond;
  link.suspect = INT64_MAX;  // the engine watches all transports alike
  link.log = join.log;
  throw_if_error(healer.prepare(member.rank, link));
  auto endpoint = std::make_unique<cluster::LinkEndpoint>(
      join.context->engine->poller(), *join.clock, std::move(socket.stream), std::move(link));
  healer.add(member.rank, endpoint.get());
  return endpoint;
}

void connect_tcp(Joining& join, Wiring& wiring, std::vector<transport::tcp::Fd> listeners,
                 transport::shm::Endpoints& endpoints) {
  cluster::MeshConfig mesh;
  mesh.view = join.view;
  mesh.rank = join.env.rank;
  for (const cluster::Member& member : join.view.members) {
    if (member.rank != join.env.rank && endpoints.count(member.rank) == 0) {
      mesh.peers.push_back(member.rank);
    }
  }
  if (mesh.peers.empty()) return;
  if (!join.transports.tcp) {
    throw Error(Status(Code::kFailedPrecondition,
                       label_of(join.view.members[static_cast<std::size_t>(mesh.peers[0])]) +
                           " cannot be reached by the transports allowed (" +
                           join.options.transport + "); allow tcp as well"));
  }
  mesh.run_id = join.env.run_id;
  mesh.key = join.key;
  mesh.insecure = join.options.insecure;
  mesh.timeout = join.options.connect_timeout.count() * kMillisecond;
  mesh.log = join.log;
  auto connected = value_or_throw(cluster::connect_mesh(join.context->engine->poller(), *join.clock,
                                                        mesh, std::move(listeners.front())));
  listeners.erase(listeners.begin());
  wiring.healer = std::make_unique<cluster::Healer>(
      join.context->engine->poller(), *join.clock, std::move(mesh), std::move(connected.acceptor),
      transport::tcp::make_listeners(std::move(listeners)));
  for (auto& [rank, socket] : connected.sockets) {
    const cluster::Member& member = join.view.members[static_cast<std::size_t>(rank)];
    endpoints[rank] = make_tcp(join, *wiring.healer, member, std::move(socket));
  }
}

// Where this rank stands among those of its host, and how full the fullest host is.
struct Locality {
  int local_rank = 0;
  int local_ranks = 0;
  int local_ranks_max = 0;
  bool several_hosts = false;
  std::vector<int> host_of;  // by rank
};

Locality locality_of(const cluster::View& view, int rank) {
  Locality locality;
  const auto& own = view.members[static_cast<std::size_t>(rank)].host_id;
  std::map<std::string, int> ranks_of, number_of;
  for (const cluster::Member& member : view.members) {
    if (member.host_id == own && member.rank < rank) ++locality.local_rank;
    const int count = ++ranks_of[member.host_id];
    const auto next = static_cast<int>(number_of.size());
    locality.host_of.push_back(number_of.try_emplace(member.host_id, next).first->second);
    locality.local_ranks_max = std::max(locality.local_ranks_max, count);
  }
  locality.local_ranks = ranks_of[own];
  locality.several_hosts = ranks_of.size() > 1;
  return locality;
}

// One line a host: the wrong network is slow and no error.
void tell_interfaces(const Joining& join, const Locality& locality) {
  const auto addresses = cluster::addresses_of(join.self());
  if (!locality.several_hosts || locality.local_rank != 0 || !addresses.ok()) return;
  std::string text;
  for (const transport::tcp::Address& each : addresses.value()) {
    text += (text.empty() ? "" : ", ") + cluster::interface_name(each) + " " + each.to_string();
  }
  join.log("serves other hosts at " + text);
}

void choose(Joining& join, const Locality& locality) {
  const bool shm = join.transports.shm && locality.local_ranks_max > 1;
  const std::string name = !shm ? "tcp" : locality.several_hosts ? "shm+tcp" : "shm";
  const std::size_t segment_max =
      shm ? segment_bytes_max(ring_capacity(locality.local_ranks_max)) : transport::kFrameBytesMax;
  session::choose_transport(*join.context, name, locality.local_ranks_max, segment_max);
  join.context->host_of = locality.host_of;
}

void attach_flight(Joining& join) {
  flight::Identity identity;
  identity.rank = join.env.rank;
  identity.world_size = join.env.world_size;
  // Other launchers' names are not unique on a host; the view's number belongs to this job alone.
  const auto run_id = env("SYNCLINE_RUN_ID");
  identity.job = run_id.has_value() ? *run_id : "job-" + std::to_string(join.view.job);
  identity.host = cluster::host_name();
  session::attach_flight(*join.context, session::FlightLog::Place::kProcess, identity);
}

Session single(Joining& join) {
  attach_flight(join);
  session::choose_transport(*join.context, "none", 1, transport::kFrameBytesMax);
  join.context->host_of = {0};
  auto impl = open_world(join.context, 0, {nullptr});
  impl->rank_source = join.env.source;
  return Session(std::move(impl));
}

}  // namespace

Session init(const SessionOptions& code_options) {
  Joining join;
  join.options = session::effective_options(code_options);
  join.env = value_or_throw(cluster::discover_rank([&](const std::string& name) {
    if (name == "SYNCLINE_RENDEZVOUS" && !join.options.rendezvous.empty()) {
      return std::optional<std::string>(join.options.rendezvous);
    }
    return env(name);
  }));
  const int rank = join.env.rank;
  join.log = [rank](const std::string& line) { session::log_line(rank, line); };
  for (const std::string& warning : join.env.warnings) join.log(warning);
  join.transports = value_or_throw(session::parse_transports(join.options.transport));
  join.context = session::make_context(join.options, rank);
  if (join.env.world_size == 1) return single(join);

  auto wiring = std::make_shared<Wiring>();
  join.clock = &wiring->clock;
  join.key = value_or_throw(cluster::load_job_key(env)).key;
  if (join.transports.shm) join.shm_listener = value_or_throw(transport::shm::Listener::open());
  std::vector<transport::tcp::Fd> listeners = meet(join);

  attach_flight(join);
  const Locality locality = locality_of(join.view, rank);
  tell_interfaces(join, locality);
  choose(join, locality);
  transport::shm::Endpoints endpoints;
  if (join.transports.shm) endpoints = connect_shm(join, locality.local_ranks);
  connect_tcp(join, *wiring, std::move(listeners), endpoints);

  std::vector<exec::Channel*> peers(join.view.members.size(), nullptr);
  for (auto& [peer, endpoint] : endpoints) {
    const auto index = static_cast<std::size_t>(peer);
    peers[index] = join.context->engine->add_channel(peer, label_of(join.view.members[index]),
                                                     std::move(endpoint));
  }
  join.context->engine->add_ticker([wiring](Nanos now) {
    if (wiring->healer != nullptr) wiring->healer->progress(now);
  });
  auto impl = open_world(join.context, rank, std::move(peers));
  impl->local_rank = locality.local_rank;
  impl->local_world_size = locality.local_ranks;
  impl->rank_source = join.env.source;
  impl->wiring = std::move(wiring);
  return Session(std::move(impl));
}

}  // namespace syncline
