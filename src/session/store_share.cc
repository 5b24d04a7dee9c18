#include "session/store_share.h"

#include "base/clock.h"
#include "ps/run_server.h"
#include "session/log.h"
#include "session/store_groups.h"

namespace syncline::session {

StoreShare::StoreShare(std::shared_ptr<SessionContext> context) : context_(std::move(context)) {}

std::shared_ptr<StoreShare> StoreShare::open(Communicator::Impl& world) {
  const auto ranks = static_cast<std::uint32_t>(world.size());
  const std::uint32_t first_id = reserve_group_ids(world, 2 * ranks * ranks);
  auto share = std::shared_ptr<StoreShare>(new StoreShare(world.context()));
  share->connect(*world.group(), first_id);
  share->start();
  return share;
}

// In the order of their ids: what arrives for an id below the newest known one is taken for old.
void StoreShare::connect(const exec::Group& world, std::uint32_t first_id) {
  const int ranks = static_cast<int>(world.world_ranks.size());
  const int self = world.rank;
  worker_.servers.resize(static_cast<std::size_t>(ranks));
  server_.workers.resize(static_cast<std::size_t>(ranks));
  for (int worker = 0; worker < ranks; ++worker) {
    for (int server = 0; server < ranks; ++server) {
      if (worker != self && server != self) continue;
      const auto id = first_id + static_cast<std::uint32_t>(worker * ranks + server);
      auto group = pair_group(world, id, worker, server);
      context_->engine->add_group(group);
      if (worker == self) worker_.servers[static_cast<std::size_t>(server)] = group;
      if (server == self) server_.workers[static_cast<std::size_t>(worker)] = group;
      groups_.push_back(std::move(group));
    }
  }
  const std::uint32_t first_of_servers = first_id + static_cast<std::uint32_t>(ranks * ranks);
  server_.peers.resize(static_cast<std::size_t>(ranks));
  for (int low = 0; low < ranks; ++low) {
    for (int high = low + 1; high < ranks; ++high) {
      if (low != self && high != self) continue;
      const auto id = first_of_servers + static_cast<std::uint32_t>(low * ranks + high);
      auto group = pair_group(world, id, low, high);
      context_->engine->add_group(group);
      server_.peers[static_cast<std::size_t>(low == self ? high : low)] = group;
      groups_.push_back(std::move(group));
    }
  }
  worker_.engine = server_.engine = context_->engine;
  worker_.worker = server_.server = self;
  worker_.workers = ranks;
  worker_.timeout = context_->timeout;
  worker_.segment_bytes = server_.segment_bytes = context_->staging.segment_bytes_max;
  server_.ends_with_stores = true;
  server_.log = [self](const std::string& line) { log_line(self, line); };
}

void StoreShare::start() {
  ended_ = std::make_shared<WorkState>(context_->engine);
  thread_ = event::NamedThread("sync-store", [this] { ended_->complete(ps::run_server(server_)); });
}

void StoreShare::wait_for_others(Nanos limit) {
  (void)context_->engine->wait_until(*ended_, monotonic_now() + limit);
}

StoreShare::~StoreShare() {
  thread_.join();
  for (const auto& group : groups_) context_->engine->remove_group(group);
}

}  // namespace syncline::session
