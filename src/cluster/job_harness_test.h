// Ranks as threads for the tests of rendezvous and mesh.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "cluster/host_identity.h"
#include "cluster/mesh.h"
#include "cluster/rendezvous.h"
#include "event/thread.h"

namespace syncline::cluster::testing_job {

inline JobKey key(unsigned char fill) {
  JobKey::Bytes bytes;
  bytes.fill(fill);
  return JobKey(bytes);
}

// Thread-safe.
class Lines {
 public:
  LogLine sink() {
    return [this](const std::string& line) {
      {
        MutexLock lock(mutex_);
        all_ += line + "\n";
      }
      changed_.notify_all();
    };
  }
  // False when no such line came within 10 s.
  bool wait_for(const std::string& part) {
    std::unique_lock lock(mutex_.native());
    return changed_.wait_for(lock, std::chrono::seconds(10),
                             [&] { return all_.find(part) != std::string::npos; });
  }
  std::string text() {
    MutexLock lock(mutex_);
    return all_;
  }

 private:
  Mutex mutex_;
  std::condition_variable changed_;
  std::string all_;  // guarded by mutex_
};

struct Rank {
  int rank = 0;
  RendezvousConfig config;
  std::optional<Member> self;  // else describe_self(rank)
  bool mesh = false;           // connect with all others afterwards
  std::optional<Result<Joined>> joined;
  std::optional<Result<Mesh>> meshed;
};

// A listener on loopback with a port of the kernel's choice, as a launcher hands it to rank 0.
struct Place {
  transport::tcp::Fd listener =
      std::move(
          transport::tcp::listen_on(transport::tcp::parse_literal("127.0.0.1", 0).value(), {}, 256))
          .value();
  transport::tcp::Address address = transport::tcp::local_address(listener.get());
  std::string uri = "tcp://" + address.to_string();
};

// Joins and, if asked, meshes; meshed ranks of one job keep their sockets until all are done.
inline void run(std::deque<Rank>& ranks) {
  std::vector<std::unique_ptr<event::Poller>> pollers;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    pollers.push_back(std::make_unique<event::Poller>());
  std::deque<event::NamedThread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back("rank", [&rank = ranks[i], poller = pollers[i].get()] {
      MonotonicClock clock;
      rank.joined.emplace(
          rendezvous(*poller, clock, rank.config, rank.self.value_or(describe_self(rank.rank))));
      if (!rank.mesh || !rank.joined->ok()) return;
      MeshConfig mesh;
      mesh.view = rank.joined->value().view;
      mesh.rank = rank.rank;
      for (int peer = 0; peer < rank.config.world_size; ++peer) {
        if (peer != rank.rank) mesh.peers.push_back(peer);
      }
      mesh.run_id = rank.config.run_id;
      mesh.key = rank.config.key;
      mesh.timeout = rank.config.timeout;
      mesh.log = rank.config.log;
      rank.meshed.emplace(
          connect_mesh(*poller, clock, mesh, std::move(rank.joined->value().data_listeners[0])));
      if (rank.meshed->ok()) rank.meshed->value().acceptor.reset();
    });
  }
  for (auto& thread : threads) thread.join();
}

inline std::deque<Rank> job(int world_size, Place& place, const std::string& run_id = "test",
                            const LogLine& log = {}) {
  std::deque<Rank> ranks(static_cast<std::size_t>(world_size));
  for (int i = 0; i < world_size; ++i) {
    Rank& rank = ranks[static_cast<std::size_t>(i)];
    rank.rank = i;
    rank.config.uri = place.uri;
    rank.config.world_size = world_size;
    rank.config.run_id = run_id;
    rank.config.key = key(7);
    rank.config.timeout = 20 * kSecond;
    rank.config.log = log;
  }
  ranks[0].config.listen_fd = place.listener.release();
  return ranks;
}

}  // namespace syncline::cluster::testing_job
