// Joining: from a view to channels to all processes.
#include <algorithm>

#include "cluster/crypto.h"
#include "session/joining.h"
#include "session/session_impl.h"

namespace syncline::session {
namespace {

bool same_host(const cluster::Member& a, const cluster::Member& b) {
  return a.host_id == b.host_id && !a.shm_name.empty() && !b.shm_name.empty();
}

// Known to the job's processes only.
transport::shm::Token shm_token(const Joining& join) {
  const std::string purpose = "syncline shm " + std::to_string(join.view.job);
  const cluster::Digest digest =
      cluster::hmac_sha256(cluster::part(join.key.bytes()), {cluster::part(purpose)});
  transport::shm::Token token;
  std::transform(digest.begin(), digest.end(), token.begin(),
                 [](unsigned char byte) { return std::byte{byte}; });
  return token;
}

transport::shm::Endpoints connect_shm(Joining& join) {
  const cluster::Member& self = join.self();
  std::vector<transport::shm::Peer> peers;
  for (const cluster::Member& member : join.view.members) {
    if (member.rank == self.rank || !same_host(member, self)) continue;
    peers.push_back({member.rank, member.incarnation, member.shm_name, join.label_of(member)});
  }
  if (peers.empty()) return {};
  transport::shm::Self me;
  me.rank = self.rank;
  me.incarnation = self.incarnation;
  me.ring_capacity = ring_capacity(join.locality.processes.here);
  me.poller = &join.context->engine->poller();
  me.token = shm_token(join);
  const Nanos deadline = monotonic_now() + join.options.connect_timeout.count() * kMillisecond;
  auto endpoints = value_or_throw(transport::shm::connect(*join.shm_listener, me, peers, deadline));
  if (endpoints.size() < peers.size()) {
    join.log("no room for shared memory; " + std::to_string(peers.size() - endpoints.size()) +
             " local peers are reached over TCP (free memory or raise the container's limit)");
  }
  return endpoints;
}

std::unique_ptr<transport::Endpoint> make_tcp(Joining& join, const cluster::Member& member,
                                              cluster::AuthenticatedSocket socket) {
  cluster::Healer& healer = *join.wiring->healer;
  cluster::LinkOptions link;
  link.self_rank = join.env.number();
  link.peer_rank = member.rank;
  link.peer_host = member.host_name;
  link.workers = join.env.world_size;
  link.view = join.view.view;
  link.self_incarnation = join.self().incarnation;
  link.peer_incarnation = member.incarnation;
  link.silence = join.options.silence.count() * kMillisecond;
  link.suspect = INT64_MAX;  // the engine watches all transports alike
  link.congestion_control = join.options.tcp_congestion;
  link.log = join.log;
  throw_if_error(healer.prepare(member.rank, link));
  auto endpoint =
      std::make_unique<cluster::LinkEndpoint>(join.context->engine->poller(), join.wiring->clock,
                                              std::move(socket.stream), std::move(link));
  healer.add(member.rank, endpoint.get());
  return endpoint;
}

cluster::MeshConfig mesh_config(const Joining& join, const transport::shm::Endpoints& connected) {
  cluster::MeshConfig mesh;
  mesh.view = join.view;
  mesh.servers = join.env.servers;
  mesh.rank = join.env.number();
  for (const cluster::Member& member : join.view.members) {
    if (member.rank != mesh.rank && connected.count(member.rank) == 0) {
      mesh.peers.push_back(member.rank);
    }
  }
  mesh.run_id = join.env.run_id;
  mesh.key = join.key;
  mesh.insecure = join.options.insecure;
  mesh.timeout = join.options.connect_timeout.count() * kMillisecond;
  mesh.log = join.log;
  return mesh;
}

void connect_tcp(Joining& join, transport::shm::Endpoints& endpoints) {
  cluster::MeshConfig mesh = mesh_config(join, endpoints);
  if (mesh.peers.empty()) return;
  if (!join.transports.tcp) {
    throw Error(
        Status(Code::kFailedPrecondition, join.label_of(join.member(mesh.peers[0])) +
                                              " cannot be reached by the transports allowed (" +
                                              join.options.transport + "); allow tcp as well"));
  }
  event::Poller& poller = join.context->engine->poller();
  std::vector<transport::tcp::Fd> listeners = std::move(join.data_listeners);
  auto connected = value_or_throw(
      cluster::connect_mesh(poller, join.wiring->clock, mesh, std::move(listeners.front())));
  listeners.erase(listeners.begin());
  join.wiring->healer = std::make_unique<cluster::Healer>(
      poller, join.wiring->clock, std::move(mesh), std::move(connected.acceptor),
      transport::tcp::make_listeners(std::move(listeners)));
  for (auto& [number, socket] : connected.sockets) {
    endpoints[number] = make_tcp(join, join.member(number), std::move(socket));
  }
}

}  // namespace

Channels connect(Joining& join) {
  transport::shm::Endpoints endpoints;
  if (join.transports.shm) endpoints = connect_shm(join);
  connect_tcp(join, endpoints);
  Channels channels(join.view.members.size(), nullptr);
  for (auto& [number, endpoint] : endpoints) {
    channels[static_cast<std::size_t>(number)] = join.context->engine->add_channel(
        number, join.label_of(join.member(number)), std::move(endpoint));
  }
  join.context->engine->add_ticker([wiring = join.wiring](Nanos now) {
    if (wiring->healer != nullptr) wiring->healer->progress(now);
    return true;
  });
  return channels;
}

}  // namespace syncline::session
