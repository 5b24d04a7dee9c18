// Jobs with servers, as threads: links of a store, and ends in any order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "cluster/process_name.h"
#include "session/aggregation.h"
#include "session/session_impl.h"
#include "session/settings.h"
#include "syncline/syncline.h"
#include "transport/inproc/inproc.h"

namespace syncline {
namespace {

using session::LocalServer;

SessionOptions short_deadlines() {
  SessionOptions options;
  options.timeout = std::chrono::seconds(20);
  return options;
}

std::shared_ptr<WorkState> message(exec::Engine& engine, exec::Group& group, bool sends,
                                   std::vector<int>& data) {
  exec::MessageRequest request;
  request.group = &group;
  request.sends = sends;
  request.peer = 1 - group.rank;
  request.data = data.data();
  request.count = data.size();
  request.type = DType::kI32;
  request.segment_bytes = 4096;
  request.timeout = 20 * kSecond;
  return engine.submit(std::move(request));
}

// The worker sends, the server answers with twice as much.
void expect_answers(const ps::WorkerLinks& worker, const ps::ServerLinks& server,
                    std::size_t count) {
  exec::Group& here = *worker.servers[static_cast<std::size_t>(server.server)];
  exec::Group& there = *server.workers[static_cast<std::size_t>(worker.worker)];
  std::vector<int> sent(count, 21), taken(count), answer(count);
  const auto sending = message(*worker.engine, here, true, sent);
  const auto answered = message(*worker.engine, here, false, answer);
  const auto receiving = message(*server.engine, there, false, taken);
  ASSERT_TRUE(server.engine->wait(*receiving).ok()) << receiving->status().to_string();
  for (int& each : taken) each *= 2;
  const auto answering = message(*server.engine, there, true, taken);
  EXPECT_TRUE(worker.engine->wait(*sending).ok());
  EXPECT_TRUE(worker.engine->wait(*answered).ok()) << answered->status().to_string();
  EXPECT_TRUE(server.engine->wait(*answering).ok());
  EXPECT_EQ(answer, std::vector<int>(count, 42));
}

// W workers and S servers whose engines start when the test says so.
struct Apart {
  Apart(int workers, int servers) : server_count(servers) {
    const int count = workers + servers;
    for (int number = 0; number < count; ++number) {
      contexts.push_back(
          session::make_context(short_deadlines(), number, cluster::process_name(number, workers)));
      session::choose_transport(*contexts.back(), "inproc", count,
                                segment_bytes_max(ring_capacity(count)));
    }
    channels.assign(contexts.size(), session::Channels(contexts.size()));
    for (int a = 0; a < count; ++a) {
      for (int b = a + 1; b < count; ++b) join(a, b, workers);
    }
  }

  void join(int a, int b, int workers) {
    exec::Engine& engine_a = *contexts[static_cast<std::size_t>(a)]->engine;
    exec::Engine& engine_b = *contexts[static_cast<std::size_t>(b)]->engine;
    auto pair = transport::inproc::connect({a, &engine_a.poller()}, {b, &engine_b.poller()},
                                           ring_capacity(4));
    channels[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)] =
        engine_a.add_channel(b, cluster::process_name(b, workers), std::move(pair.first));
    channels[static_cast<std::size_t>(b)][static_cast<std::size_t>(a)] =
        engine_b.add_channel(a, cluster::process_name(a, workers), std::move(pair.second));
  }

  std::unique_ptr<Session::Impl> start_worker(int rank) {
    const auto index = static_cast<std::size_t>(rank);
    return open_world(contexts[index], rank, channels[index], server_count);
  }
  std::unique_ptr<LocalServer> start_server(int server) {
    const auto index = contexts.size() - static_cast<std::size_t>(server_count - server);
    return std::make_unique<LocalServer>(
        contexts[index],
        session::open_server_links(*contexts[index], server, channels[index], server_count),
        session::open_aggregation(*contexts[index], static_cast<int>(index), channels[index],
                                  server_count));
  }

  int server_count;
  std::vector<std::shared_ptr<SessionContext>> contexts;
  std::vector<session::Channels> channels;
};

TEST(StoreGroups, IdsAreDistinctAndBelowTheFirstFreeOne) {
  for (const auto& [workers, servers] : {std::pair{1, 0}, {1, 1}, {4, 1}, {1, 4}, {3, 5}}) {
    const session::StoreGroupIds ids{workers, servers};
    std::set<std::uint32_t> seen{1};
    std::uint32_t last = 1;
    const auto take = [&](std::uint32_t id) {
      EXPECT_TRUE(seen.insert(id).second) << id;
      EXPECT_EQ(id, last + 1) << "without gaps, in lexicographic order";
      last = id;
    };
    for (int w = 0; w < workers; ++w) {
      for (int s = 0; s < servers; ++s) take(ids.pair(w, s));
    }
    for (int a = 0; a < servers; ++a) {
      for (int b = a + 1; b < servers; ++b) take(ids.peers(a, b));
    }
    if (servers > 0) take(ids.aggregation());
    if (servers > 0) take(ids.workers_alone());
    EXPECT_EQ(ids.first_free(), last + 1);
  }
}

TEST(Servers, AllPairsExchangeBesideTheWorld) {
  ThreadJob job = open_threads(short_deadlines(), {0, 0}, {0, 0});
  for (Session& session : job.sessions) {
    EXPECT_EQ(session.world_size(), 2);
    EXPECT_EQ(session.servers(), 2);
    EXPECT_EQ(session.local_world_size(), 2);
  }
  std::vector<float> sums(2, 1.0f);
  std::vector<Work> works;
  for (std::size_t r = 0; r < 2; ++r) {
    works.push_back(job.sessions[r].world().all_reduce({&sums[r], 1}));
  }
  for (Work& work : works) work.wait();
  EXPECT_EQ(sums, std::vector<float>(2, 2.0f));
  for (const auto& server : job.servers) EXPECT_EQ(server->links().workers.size(), 2u);

  const ps::ServerLinks& first = job.servers[0]->links();
  const ps::ServerLinks& second = job.servers[1]->links();
  EXPECT_EQ(first.peers[0], nullptr);
  EXPECT_EQ(second.peers[1], nullptr);
  std::vector<int> sent{7}, taken{0};
  const auto sending = message(*second.engine, *second.peers[0], true, sent);
  const auto receiving = message(*first.engine, *first.peers[1], false, taken);
  EXPECT_TRUE(first.engine->wait(*receiving).ok());
  EXPECT_TRUE(second.engine->wait(*sending).ok());
  EXPECT_EQ(taken[0], 7);
}

TEST(Servers, MessagesWaitForAProcessThatStartsLater) {
  for (const bool worker_first : {true, false}) {
    Apart job(2, 2);
    std::vector<std::unique_ptr<Session::Impl>> workers(2);
    std::vector<std::unique_ptr<LocalServer>> servers(2);
    const auto start_workers = [&] {
      for (const int r : {1, 0}) workers[static_cast<std::size_t>(r)] = job.start_worker(r);
    };
    const auto start_servers = [&] {
      for (const int s : {1, 0}) servers[static_cast<std::size_t>(s)] = job.start_server(s);
    };
    worker_first ? start_workers() : start_servers();
    // A small message goes at once; what it finds is an engine that knows no group yet.
    std::vector<int> small{5}, taken{0};
    std::shared_ptr<WorkState> early;
    if (worker_first) {
      early = message(*workers[1]->store.engine, *workers[1]->store.servers[0], true, small);
      EXPECT_TRUE(workers[1]->store.engine->wait(*early).ok());
      start_servers();
    } else {
      early = message(*servers[0]->links().engine, *servers[0]->links().workers[1], true, small);
      EXPECT_TRUE(servers[0]->links().engine->wait(*early).ok());
      start_workers();
    }
    exec::Engine& engine = worker_first ? *servers[0]->links().engine : *workers[1]->store.engine;
    exec::Group& group =
        worker_first ? *servers[0]->links().workers[1] : *workers[1]->store.servers[0];
    const auto receiving = message(engine, group, false, taken);
    EXPECT_TRUE(engine.wait(*receiving).ok()) << receiving->status().to_string();
    EXPECT_EQ(taken[0], 5);
    for (const auto& worker : workers) {
      for (const auto& server : servers) {
        for (const std::size_t count : {std::size_t{1}, std::size_t{100000}}) {
          expect_answers(worker->store, server->links(), count);
        }
      }
    }
  }
}

TEST(Servers, AWorkerThatLeavesEndsItsOwnPairsOnly) {
  Apart job(2, 2);
  auto leaving = job.start_worker(0);
  auto staying = job.start_worker(1);
  const auto server = job.start_server(0);
  const auto other = job.start_server(1);
  std::vector<int> taken{0};
  const ps::ServerLinks& links = server->links();
  const auto receiving = message(*links.engine, *links.workers[0], false, taken);
  leaving.reset();
  EXPECT_EQ(links.engine->wait(*receiving).code(), Code::kPeerLost);
  EXPECT_THAT(receiving->status().message(), testing::HasSubstr("rank 0"));
  expect_answers(staying->store, server->links(), 1000);
  expect_answers(staying->store, other->links(), 1000);
}

TEST(Servers, AServerThatLeavesIsNamedAndTheWorldGoesOn) {
  Apart job(2, 2);
  auto first = job.start_worker(0);
  auto second = job.start_worker(1);
  auto leaving = job.start_server(0);
  const auto staying = job.start_server(1);
  std::vector<int> taken{0};
  const auto receiving = message(*first->store.engine, *first->store.servers[0], false, taken);
  leaving.reset();
  EXPECT_EQ(first->store.engine->wait(*receiving).code(), Code::kPeerLost);
  EXPECT_THAT(receiving->status().message(), testing::HasSubstr("server 0"));
  expect_answers(first->store, staying->links(), 10);
  Work one = first->world.barrier();
  second->world.barrier().wait();
  one.wait();
}

TEST(Servers, GroupsOfSplitsLieBehindThoseOfTheStore) {
  ThreadJob job = open_threads(short_deadlines(), {0, 0}, {0, 0, 0});
  std::vector<Communicator> groups(2);
  event::NamedThread other("split", [&] { groups[1] = job.sessions[1].world().split(0); });
  groups[0] = job.sessions[0].world().split(0);
  other.join();
  Work one = groups[0].barrier();
  groups[1].barrier().wait();
  one.wait();
}

TEST(InitThreads, ServersEndWithTheLastSessionInAnyOrder) {
  for (const int workers : {1, 3}) {
    std::vector<std::size_t> order(static_cast<std::size_t>(workers));
    std::iota(order.begin(), order.end(), std::size_t{0});
    do {
      std::vector<Session> made = init_threads(workers, short_deadlines(), 2);
      std::vector<std::unique_ptr<Session>> sessions;
      for (Session& each : made) sessions.push_back(std::make_unique<Session>(std::move(each)));
      made.clear();
      EXPECT_EQ(sessions[0]->servers(), 2);
      for (const std::size_t index : order) sessions[index].reset();
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(InitThreads, SessionsMayLeaveAtOnce) {
  for (int i = 0; i < 10; ++i) {
    std::vector<Session> sessions = init_threads(3, short_deadlines(), 2);
    std::vector<event::NamedThread> threads;
    for (Session& each : sessions) {
      threads.emplace_back("worker", [mine = std::make_shared<Session>(std::move(each))]() mutable {
        mine->world().barrier().wait();
        mine.reset();
      });
    }
    sessions.clear();
  }
}

TEST(InitThreads, RefusesNumbersOfNothing) {
  EXPECT_THROW(init_threads(0, {}, 1), Error);
  EXPECT_THROW(init_threads(1, {}, -1), Error);
  EXPECT_EQ(init_threads(2)[0].servers(), 0);
}

}  // namespace
}  // namespace syncline
