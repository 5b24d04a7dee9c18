// init_threads: a job whose ranks are threads of this process.
#include <unistd.h>

#include "cluster/process_name.h"
#include "session/aggregation.h"
#include "session/log.h"
#include "session/session_impl.h"
#include "session/settings.h"
#include "transport/inproc/inproc.h"

namespace syncline {
namespace {

using Contexts = std::vector<std::shared_ptr<SessionContext>>;

struct LocalJob {
  std::vector<std::unique_ptr<Session::Impl>> workers;
  std::vector<std::unique_ptr<session::LocalServer>> servers;
};

Contexts make_contexts(const SessionOptions& options, const std::vector<int>& host_of,
                       const std::vector<int>& server_hosts) {
  const int ranks = static_cast<int>(host_of.size());
  const int servers = static_cast<int>(server_hosts.size());
  const std::size_t capacity = ring_capacity(ranks + servers);
  Contexts contexts;
  for (int number = 0; number < ranks + servers; ++number) {
    auto context = session::make_context(options, number, cluster::process_name(number, ranks));
    session::choose_transport(*context, "inproc", ranks, segment_bytes_max(capacity));
    context->engine->set_crowded(ranks + servers > session::usable_cores());
    if (number < ranks) {
      session::attach_flight(*context, session::FlightLog::Place::kThread,
                             {number, ranks, "threads-" + std::to_string(::getpid()), ""});
    }
    context->host_of = host_of;
    context->server_hosts = server_hosts;
    contexts.push_back(std::move(context));
  }
  return contexts;
}

std::vector<session::Channels> connect_threads(const Contexts& contexts, int ranks) {
  const std::size_t count = contexts.size();
  const std::size_t capacity = ring_capacity(static_cast<int>(count));
  std::vector<session::Channels> peers(count, session::Channels(count));
  const auto name = [ranks](std::size_t number) {
    return cluster::process_name(static_cast<int>(number), ranks) + " (a thread)";
  };
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = a + 1; b < count; ++b) {
      auto& engine_a = *contexts[a]->engine;
      auto& engine_b = *contexts[b]->engine;
      auto pair = transport::inproc::connect({static_cast<int>(a), &engine_a.poller()},
                                             {static_cast<int>(b), &engine_b.poller()}, capacity);
      peers[a][b] = engine_a.add_channel(static_cast<int>(b), name(b), std::move(pair.first));
      peers[b][a] = engine_b.add_channel(static_cast<int>(a), name(a), std::move(pair.second));
    }
  }
  return peers;
}

LocalJob open_local(const SessionOptions& code_options, const std::vector<int>& host_of,
                    const std::vector<int>& server_hosts) {
  const int ranks = static_cast<int>(host_of.size());
  const int servers = static_cast<int>(server_hosts.size());
  const Contexts contexts =
      make_contexts(session::effective_options(code_options), host_of, server_hosts);
  std::vector<session::Channels> peers = connect_threads(contexts, ranks);
  LocalJob job;
  for (int number = 0; number < ranks + servers; ++number) {
    const auto index = static_cast<std::size_t>(number);
    if (number >= ranks) {
      ps::ServerLinks links =
          session::open_server_links(*contexts[index], number - ranks, peers[index], servers);
      const std::string name = cluster::process_name(number, ranks);
      links.log = [name](const std::string& line) { session::log_line(name, line); };
      auto aggregation = session::open_aggregation(*contexts[index], number, peers[index], servers);
      job.servers.push_back(std::make_unique<session::LocalServer>(
          contexts[index], std::move(links), std::move(aggregation)));
      continue;
    }
    auto impl = open_world(contexts[index], number, std::move(peers[index]), servers);
    impl->local_rank = number;
    impl->local_world_size = ranks;
    impl->rank_source = "init_threads";
    job.workers.push_back(std::move(impl));
  }
  return job;
}

std::vector<Session> sessions_of(std::vector<std::unique_ptr<Session::Impl>> workers) {
  std::vector<Session> sessions;
  for (auto& worker : workers) sessions.emplace_back(std::move(worker));
  return sessions;
}

void check_counts(int ranks, int servers) {
  if (ranks < 1) {
    throw Error(Status(Code::kInvalidArgument,
                       "init_threads needs at least one rank, got " + std::to_string(ranks)));
  }
  if (servers < 0) {
    throw Error(Status(Code::kInvalidArgument,
                       "init_threads cannot start " + std::to_string(servers) + " servers"));
  }
}

}  // namespace

std::vector<Session> open_threads(const SessionOptions& options, std::vector<int> host_of) {
  return sessions_of(open_local(options, host_of, {}).workers);
}

ThreadJob open_threads(const SessionOptions& options, std::vector<int> host_of,
                       std::vector<int> server_hosts) {
  LocalJob job = open_local(options, host_of, server_hosts);
  return {sessions_of(std::move(job.workers)), std::move(job.servers)};
}

std::vector<Session> start_threads(const SessionOptions& options, std::vector<int> host_of,
                                   std::vector<int> server_hosts) {
  LocalJob job = open_local(options, host_of, server_hosts);
  if (server_hosts.empty()) return sessions_of(std::move(job.workers));
  // Declared before the threads: if one cannot start, the workers leave before the others are
  // waited for.
  std::vector<Session> sessions;
  const auto threads = std::make_shared<session::ServerThreads>(std::move(job.servers));
  for (const auto& worker : job.workers) worker->company = threads;
  sessions = sessions_of(std::move(job.workers));
  threads->start();
  return sessions;
}

std::vector<Session> init_threads(int ranks, const SessionOptions& options) {
  return init_threads(ranks, options, 0);
}

std::vector<Session> init_threads(int ranks, const SessionOptions& options, int servers) {
  check_counts(ranks, servers);
  return start_threads(options, std::vector<int>(static_cast<std::size_t>(ranks), 0),
                       std::vector<int>(static_cast<std::size_t>(servers), 0));
}

}  // namespace syncline
