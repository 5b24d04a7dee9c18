#include "syncline/session.h"

#include <algorithm>
#include <bit>

#include "session/aggregation.h"
#include "session/flight.h"
#include "session/session_impl.h"
#include "session/stop_signal.h"

namespace syncline {
namespace {

constexpr std::size_t kStagingBytesMax = 8 << 20;

}  // namespace

Session::Impl::~Impl() {
  if (context == nullptr) return;
  context->engine->stop(kLinger);
  shares.clear();
  relays.clear();
  if (context->flight == nullptr) return;
  context->flight->dump_if_wanted();  // the last failure may be younger than the last tick
  context->flight->leave();
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Communicator& Session::world() { return impl_->world; }
int Session::rank() const { return impl_->rank; }
int Session::world_size() const { return impl_->world_size; }
int Session::servers() const {
  return impl_->aggregates ? 0 : static_cast<int>(impl_->store.servers.size());
}
int Session::local_rank() const { return impl_->local_rank; }
int Session::local_world_size() const { return impl_->local_world_size; }
const std::string& Session::rank_source() const { return impl_->rank_source; }
bool Session::stop_requested() const {
  session::watch_stop_signals();  // from the first question on: who never asks is ended as usual
  return session::stop_signal_seen();
}

std::unique_ptr<Session::Impl> open_world(std::shared_ptr<SessionContext> context, int rank,
                                          session::Channels channels, int servers) {
  const int workers = static_cast<int>(channels.size()) - servers;
  auto group = std::make_shared<exec::Group>();
  group->id = 1;
  group->rank = rank;
  group->peers.assign(channels.begin(), channels.begin() + workers);
  for (int r = 0; r < workers; ++r) group->world_ranks.push_back(r);

  auto impl = std::make_unique<Session::Impl>();
  impl->context = std::move(context);
  impl->rank = rank;
  impl->world_size = workers;
  impl->world_impl = std::make_shared<Communicator::Impl>(impl->context, std::move(group));
  impl->world = Communicator(impl->world_impl);
  impl->store = session::open_worker_links(*impl->context, rank, channels, servers);
  impl->context->aggregation = session::open_aggregation(*impl->context, rank, channels, servers);
  if (servers > 0) {
    impl->aggregated_calls =
        session::open_aggregated_calls(impl->context, *impl->world_impl->group());
  }
  impl->context->aggregated_calls = impl->aggregated_calls;
  impl->context->next_group_id = session::StoreGroupIds{workers, servers}.first_free();
  impl->context->engine->start();
  return impl;
}

std::size_t ring_capacity(int local_ranks) {
  const auto peers = static_cast<std::size_t>(std::max(local_ranks - 1, 1));
  return std::clamp<std::size_t>(std::bit_floor(kStagingBytesMax / peers), 128 << 10, 1 << 20);
}

std::size_t segment_bytes_max(std::size_t capacity) {
  return std::min<std::size_t>(capacity / 4, transport::kFrameBytesMax);
}

}  // namespace syncline
