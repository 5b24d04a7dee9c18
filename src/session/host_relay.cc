#include "session/host_relay.h"

#include <set>

#include "base/clock.h"
#include "plan/canonical.h"
#include "ps/run_server.h"
#include "session/log.h"
#include "session/store_groups.h"

namespace syncline::session {
namespace {

// The node [first, first + count) of the canonical tree holds hosts whole, or is a part of one.
bool is_of_whole_hosts(const std::vector<int>& host_of, int first, int count) {
  const auto begin = host_of.begin() + first, end = begin + count;
  if (std::set<int>(begin, end).size() == 1) return true;
  const int split = plan::canonical_split(count);
  const std::set<int> left(begin, begin + split), right(begin + split, end);
  for (const int host : left) {
    if (right.count(host) > 0) return false;
  }
  return is_of_whole_hosts(host_of, first, split) &&
         is_of_whole_hosts(host_of, first + split, count - split);
}

}  // namespace

std::vector<int> ranks_of_host(const std::vector<int>& host_of, int rank) {
  std::vector<int> ranks;
  for (std::size_t other = 0; other < host_of.size(); ++other) {
    if (host_of[other] == host_of[static_cast<std::size_t>(rank)])
      ranks.push_back(static_cast<int>(other));
  }
  return ranks;
}

bool sums_canonically(const std::vector<int>& host_of) {
  return is_of_whole_hosts(host_of, 0, static_cast<int>(host_of.size()));
}

std::shared_ptr<HostRelay> HostRelay::open(Communicator::Impl& world,
                                           std::shared_ptr<ps::Client> servers) {
  const std::uint32_t first_id = reserve_group_ids(world, static_cast<std::uint32_t>(world.size()));
  const exec::Group& group = *world.group();
  auto relay = std::shared_ptr<HostRelay>(new HostRelay(
      world.context(), ranks_of_host(world.context()->host_of, group.rank), group.rank));
  if (!relay->is_needed()) return relay;
  relay->connect(group, first_id);
  if (relay->leads()) relay->start(std::move(servers));
  return relay;
}

// In the order of their ids: what arrives for an id below the newest known one is taken for old.
void HostRelay::connect(const exec::Group& world, std::uint32_t first_id) {
  const int leader = ranks_.front();
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const int worker = ranks_[i];
    if (worker == rank_) {
      worker_.worker = static_cast<int>(i);
    } else if (!leads()) {
      continue;
    }
    auto group = pair_group(world, first_id + static_cast<std::uint32_t>(worker), worker, leader);
    context_->engine->add_group(group);
    if (worker == rank_) worker_.servers.push_back(group);
    if (leads()) server_.workers.push_back(group);
    groups_.push_back(std::move(group));
  }
  worker_.engine = server_.engine = context_->engine;
  worker_.workers = static_cast<int>(ranks_.size());
  worker_.timeout = context_->timeout;
  worker_.segment_bytes = server_.segment_bytes = context_->staging.segment_bytes_max;
  server_.ends_with_stores = true;
  server_.log = [self = rank_](const std::string& line) { log_line(self, line); };
}

void HostRelay::start(std::shared_ptr<ps::Client> servers) {
  ended_ = std::make_shared<WorkState>(context_->engine);
  thread_ = event::NamedThread("sync-relay", [this, servers = std::move(servers)] {
    ended_->complete(ps::run_relay(server_, servers));
  });
}

void HostRelay::wait_for_others(Nanos limit) {
  if (ended_ != nullptr) (void)context_->engine->wait_until(*ended_, monotonic_now() + limit);
}

HostRelay::~HostRelay() {
  if (ended_ != nullptr) thread_.join();
  for (const auto& group : groups_) context_->engine->remove_group(group);
}

}  // namespace syncline::session
