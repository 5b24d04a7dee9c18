// init_threads: a job whose ranks are threads of this process.
#include <sched.h>
#include <unistd.h>

#include <thread>

#include "session/log.h"
#include "session/session_impl.h"
#include "session/settings.h"
#include "transport/inproc/inproc.h"

namespace syncline {

std::vector<Session> open_threads(const SessionOptions& code_options, std::vector<int> host_of) {
  const int ranks = static_cast<int>(host_of.size());
  const SessionOptions options = session::effective_options(code_options);
  const std::size_t capacity = ring_capacity(ranks);
  std::vector<std::shared_ptr<SessionContext>> contexts;
  for (int rank = 0; rank < ranks; ++rank) {
    auto context = session::make_context(options, rank);
    session::choose_transport(*context, "inproc", ranks, segment_bytes_max(capacity));
    session::attach_flight(*context, session::FlightLog::Place::kThread,
                           {rank, ranks, "threads-" + std::to_string(::getpid()), ""});
    context->host_of = host_of;
    contexts.push_back(std::move(context));
  }
  const auto count = static_cast<std::size_t>(ranks);
  std::vector<std::vector<exec::Channel*>> peers(count, std::vector<exec::Channel*>(count));
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = a + 1; b < count; ++b) {
      auto& engine_a = *contexts[a]->engine;
      auto& engine_b = *contexts[b]->engine;
      auto pair = transport::inproc::connect({static_cast<int>(a), &engine_a.poller()},
                                             {static_cast<int>(b), &engine_b.poller()}, capacity);
      const auto name = [](std::size_t r) { return "rank " + std::to_string(r) + " (a thread)"; };
      peers[a][b] = engine_a.add_channel(static_cast<int>(b), name(b), std::move(pair.first));
      peers[b][a] = engine_b.add_channel(static_cast<int>(a), name(a), std::move(pair.second));
    }
  }
  std::vector<Session> sessions;
  for (std::size_t rank = 0; rank < count; ++rank) {
    auto impl = open_world(contexts[rank], static_cast<int>(rank), std::move(peers[rank]));
    impl->local_rank = static_cast<int>(rank);
    impl->local_world_size = ranks;
    impl->rank_source = "init_threads";
    sessions.emplace_back(std::move(impl));
  }
  return sessions;
}

std::vector<Session> init_threads(int ranks, const SessionOptions& code_options) {
  if (ranks < 1) {
    throw Error(Status(Code::kInvalidArgument,
                       "init_threads needs at least one rank, got " + std::to_string(ranks)));
  }
  return open_threads(code_options, std::vector<int>(static_cast<std::size_t>(ranks), 0));
}

}  // namespace syncline
