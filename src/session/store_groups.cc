#include "session/store_groups.h"

#include <algorithm>

namespace syncline::session {
namespace {

constexpr std::uint32_t kFirstPairId = 2;
constexpr std::size_t kStoreSegmentBytes = 128 << 10;  // as sends and receives of users

std::size_t store_segment_bytes(const SessionContext& context) {
  return std::min(context.staging.segment_bytes_max, kStoreSegmentBytes);
}

// The group of processes `low` and `high`, one of which is this process.
std::shared_ptr<exec::Group> add_pair(const SessionContext& context, std::uint32_t id, int low,
                                      int high, const Channels& channels) {
  auto group = std::make_shared<exec::Group>();
  group->id = id;
  group->peers = {channels[static_cast<std::size_t>(low)],
                  channels[static_cast<std::size_t>(high)]};
  group->rank = group->peers[0] == nullptr ? 0 : 1;
  group->world_ranks = {low, high};
  context.engine->add_group(group);
  return group;
}

}  // namespace

std::uint32_t StoreGroupIds::pair(int worker, int server) const {
  return kFirstPairId + static_cast<std::uint32_t>(worker) * static_cast<std::uint32_t>(servers) +
         static_cast<std::uint32_t>(server);
}

std::uint32_t StoreGroupIds::peers(int a, int b) const {
  // Row a begins behind S-1 + S-2 + ... pairs.
  const auto row = static_cast<std::uint32_t>(a);
  const auto before = row * static_cast<std::uint32_t>(servers) - row * (row + 1) / 2;
  return pair(workers, 0) + before + static_cast<std::uint32_t>(b - a - 1);
}

std::uint32_t StoreGroupIds::aggregation() const {
  const auto count = static_cast<std::uint32_t>(servers);
  return pair(workers, 0) + (count == 0 ? 0 : count * (count - 1) / 2);
}

std::uint32_t StoreGroupIds::workers_alone() const { return aggregation() + 1; }

std::uint32_t StoreGroupIds::first_free() const { return aggregation() + (servers > 0 ? 2 : 0); }

std::uint32_t reserve_group_ids(Communicator::Impl& world, std::uint32_t count) {
  SessionContext& context = *world.context();
  std::int64_t first = context.next_group_id.load();
  Communicator::Impl::Call call;
  call.kind = Collective::kAllReduce;
  call.in = {&first, 1};
  call.out = {&first, 1};
  call.count = 1;
  call.op = ReduceOp::kMax;
  CallOptions options;
  options.name = "kvstore";
  world.start(call, options).wait();
  context.take_group_ids(static_cast<std::uint32_t>(first) + count);
  return static_cast<std::uint32_t>(first);
}

std::shared_ptr<exec::Group> pair_group(const exec::Group& world, std::uint32_t id, int worker,
                                        int server) {
  auto group = std::make_shared<exec::Group>();
  group->id = id;
  std::vector<int> ranks{worker};
  if (server != worker) ranks.push_back(server);
  for (const int rank : ranks) {
    if (rank == world.rank) group->rank = static_cast<int>(group->peers.size());
    group->peers.push_back(world.peers[static_cast<std::size_t>(rank)]);
    group->world_ranks.push_back(world.world_ranks[static_cast<std::size_t>(rank)]);
  }
  return group;
}

ps::WorkerLinks open_worker_links(const SessionContext& context, int worker,
                                  const Channels& channels, int servers) {
  const int workers = static_cast<int>(channels.size()) - servers;
  const StoreGroupIds ids{workers, servers};
  ps::WorkerLinks links;
  links.engine = context.engine;
  links.worker = worker;
  links.workers = workers;
  links.segment_bytes = store_segment_bytes(context);
  links.timeout = context.timeout;
  for (int server = 0; server < servers; ++server) {
    links.servers.push_back(
        add_pair(context, ids.pair(worker, server), worker, workers + server, channels));
  }
  return links;
}

ps::ServerLinks open_server_links(const SessionContext& context, int server,
                                  const Channels& channels, int servers) {
  const int workers = static_cast<int>(channels.size()) - servers;
  const StoreGroupIds ids{workers, servers};
  ps::ServerLinks links;
  links.engine = context.engine;
  links.server = server;
  links.segment_bytes = store_segment_bytes(context);
  for (int worker = 0; worker < workers; ++worker) {
    links.workers.push_back(
        add_pair(context, ids.pair(worker, server), worker, workers + server, channels));
  }
  for (int peer = 0; peer < servers; ++peer) {
    const int low = std::min(peer, server);
    const int high = std::max(peer, server);
    links.peers.push_back(peer == server ? nullptr
                                         : add_pair(context, ids.peers(low, high), workers + low,
                                                    workers + high, channels));
  }
  return links;
}

}  // namespace syncline::session
