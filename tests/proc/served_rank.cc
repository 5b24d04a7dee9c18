// One rank of the jobs that the tests start with servers.
//
//   served_rank [--servers N] [--until FILE] [--fail RANK] [--scatter SEED] [--custom ID]
//
// Expects N servers, reduces until rank 0 sees FILE; rank RANK then ends with exit code 3. With
// SEED it pushes keys of many sizes instead and ends when it likes, with pushes and pulls on their
// way. With ID it steps once with that custom update. As a server (--server-program) it knows
// update 3.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "syncline/syncline.h"
#include "tests/net/rank_main.h"

namespace {

// Everybody adds 1; rank 0 ends it with more.
void reduce_until(syncline::Session& session, const std::string& file) {
  for (bool stop = false; !stop;) {
    const bool last = file.empty() || ::access(file.c_str(), F_OK) == 0;
    std::int64_t sum = session.rank() == 0 && last ? 1000 : 1;
    session.world().all_reduce({&sum, 1}).wait();
    stop = sum >= 1000;
    if (sum % 1000 + (stop ? 1 : 0) != session.world_size()) throw std::runtime_error("wrong sum");
    if (!file.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

// Case PS-10, second part.
void scatter(syncline::Session& session, unsigned seed) {
  std::mt19937 random(seed * 97 + static_cast<unsigned>(session.rank()));
  syncline::KVStore kv = session.kvstore(
      syncline::KVStoreOptions().consistency(syncline::Consistency::asynchronous()));
  const std::vector<std::size_t> counts{1, 3000, 20'000, 400'000};
  std::vector<std::vector<float>> values, sums;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    values.emplace_back(counts[k], 1.0F);
    sums.emplace_back(counts[k]);
    kv.init(std::to_string(k), {values[k].data(), counts[k]});
  }
  for (unsigned i = 0, calls = random() % 40; i < calls; ++i) {
    const std::size_t k = random() % counts.size();
    kv.push(std::to_string(k), {values[k].data(), counts[k]});
    if (random() % 3 == 0) kv.pull(std::to_string(k), {sums[k].data(), counts[k]}).wait();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(random() % 20));
  kv.finish();  // what was pushed is borrowed until then
  std::printf("rank %d: done\n", session.rank());
}

void step(syncline::Session& session, std::uint32_t update) {
  syncline::KVStore kv = session.kvstore();
  kv.set_optimizer(syncline::optim::Custom(update));
  std::vector<float> w(100'000, 5), gradient(w.size(), 1);
  kv.init("w", {w.data(), w.size()});
  kv.push("w", {gradient.data(), gradient.size()}).wait();
  kv.clock();
  kv.pull("w", {w.data(), w.size()}).wait();
  const float expected = 5 - 10 * static_cast<float>(session.world_size());
  const bool right = w == std::vector<float>(w.size(), expected);
  std::printf("rank %d: %s\n", session.rank(), right ? "right" : "wrong");
}

void run(syncline::net::RankOptions options) {
  syncline::Session session = syncline::init();
  const std::string wanted = options.count("--servers") != 0 ? options["--servers"] : "0";
  if (session.servers() != std::stoi(wanted)) throw std::runtime_error("other servers");
  if (options.count("--scatter") != 0) return scatter(session, std::stoul(options["--scatter"]));
  if (options.count("--custom") != 0) return step(session, std::stoul(options["--custom"]));
  std::printf("ready\n");
  std::fflush(stdout);
  reduce_until(session, options["--until"]);
  if (options["--fail"] == std::to_string(session.rank())) {
    std::fprintf(stderr, "no more data\n");
    std::_Exit(3);
  }
  std::printf("rank %d of %d with %d servers: right\n", session.rank(), session.world_size(),
              session.servers());
}

}  // namespace

int main(int argc, char** argv) { return syncline::net::rank_main("served_rank", argc, argv, run); }
