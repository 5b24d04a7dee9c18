// One rank of the jobs that the tests start in every way; the program never changes.
//
//   net_rank [--until FILE] [--tag N]   reduces once, or again and again until rank 0 sees FILE
//
// Prints "ready" after the start, then "tags N N ..." of all ranks if it has one itself, and one
// line at the end. Exit codes are those of the tools.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "syncline/syncline.h"
#include "tests/net/rank_main.h"

namespace {

constexpr std::size_t kCount = 100003;

// Everybody contributes 1; rank 0 stops the others through element 0.
int reduce_until(syncline::Session& session, const std::string& file) {
  std::vector<std::int64_t> data(kCount);
  const std::int64_t n = session.world_size();
  int rounds = 0;
  for (bool stop = false; !stop; ++rounds) {
    data.assign(kCount, 1);
    const bool last = file.empty() || ::access(file.c_str(), F_OK) == 0;
    if (session.rank() == 0 && last) data[0] = 1000000;
    session.world().all_reduce({data.data(), kCount}).wait();
    stop = data[0] >= 1000000;
    for (std::size_t i = 1; i < kCount; ++i) {
      if (data[i] != n) throw std::runtime_error("wrong sum at element " + std::to_string(i));
    }
    if (!file.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return rounds;
}

// Ranks of two jobs that took each other for their own have different tags.
void print_tags(syncline::Session& session, std::int64_t tag) {
  std::vector<std::int64_t> tags(static_cast<std::size_t>(session.world_size()));
  session.world().all_gather({&tag, 1}, {tags.data(), tags.size()}).wait();
  std::printf("tags");
  for (const std::int64_t each : tags) std::printf(" %d", static_cast<int>(each));
  std::printf("\n");
  std::fflush(stdout);
}

void run(syncline::net::RankOptions options) {
  syncline::Session session = syncline::init();
  std::printf("ready\n");
  std::fflush(stdout);
  if (options.count("--tag") != 0) print_tags(session, std::stoi(options["--tag"]));
  const int rounds = reduce_until(session, options["--until"]);
  const auto plan =
      session.world().plan(syncline::Collective::kAllReduce, syncline::DType::kI64, kCount);
  std::printf("rank %d of %d, local %d of %d, by %s, over %s: %s\n", session.rank(),
              session.world_size(), session.local_rank(), session.local_world_size(),
              session.rank_source().c_str(), plan.transport.c_str(), rounds > 0 ? "right" : "?");
}

}  // namespace

int main(int argc, char** argv) { return syncline::net::rank_main("net_rank", argc, argv, run); }
