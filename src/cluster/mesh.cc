#include "cluster/mesh.h"

#include "cluster/mesh_builder.h"

namespace syncline::cluster {
namespace {

using transport::tcp::Address;

constexpr Nanos kMeshPollSlice = 50 * kMillisecond;

}  // namespace

std::string process_name(const MeshConfig& config, int number) {
  return process_name(number, static_cast<int>(config.view.members.size()) - config.servers);
}

HandshakeConfig data_handshake(const MeshConfig& config) {
  HandshakeConfig out;
  out.key = config.key;
  out.run_id = config.run_id;
  out.role = wire::ConnectionRole::kData;
  out.rank = config.rank;
  out.world_size = static_cast<int>(config.view.members.size());
  out.servers = config.servers;
  out.incarnation = config.view.members[static_cast<std::size_t>(config.rank)].incarnation;
  out.view = config.view.view;
  out.job = config.view.job;
  return out;
}

AcceptorOptions data_acceptor(const MeshConfig& config) {
  AcceptorOptions options;
  options.handshake = data_handshake(config);
  options.insecure = config.insecure;
  options.name = "data";
  options.log = config.log;
  options.outside = config.outside;
  return options;
}

Result<std::vector<Address>> addresses_of(const Member& member) {
  std::vector<Address> addresses;
  for (const std::string& text : member.addresses) {
    const auto where = transport::tcp::parse_host_port(text);
    auto address = where.ok()
                       ? transport::tcp::parse_literal(where.value().host, where.value().port)
                       : Result<Address>(where.status());
    if (!address.ok()) {
      return Status(Code::kCorrupt, "rank " + std::to_string(member.rank) +
                                        " announced an address that is none: '" + text + "'")
          .with_peer(member.rank);
    }
    addresses.push_back(address.value());
  }
  if (addresses.empty()) {
    return Status(Code::kCorrupt, "rank " + std::to_string(member.rank) + " announced no address")
        .with_peer(member.rank);
  }
  return addresses;
}

Result<Mesh> connect_mesh(event::Poller& poller, const Clock& clock, const MeshConfig& config,
                          transport::tcp::Fd data_listener) {
  MeshBuilder builder(poller, clock, config,
                      transport::tcp::make_listener(std::move(data_listener)));
  for (;;) {
    builder.progress(clock.now());
    if (builder.ended()) return builder.take();
    poller.poll(kMeshPollSlice);
  }
}

}  // namespace syncline::cluster
