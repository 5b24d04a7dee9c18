// One rank of the jobs that net_test.py starts in every way; the program never changes.
//
//   net_rank [--until FILE]   reduces once, or again and again until rank 0 sees FILE
//
// Prints "ready" after the start and one line at the end. Exit codes are those of the tools.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "syncline/syncline.h"
#include "tools/cli/exit_code.h"

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

int run(const std::string& file) {
  syncline::Session session = syncline::init();
  std::printf("ready\n");
  std::fflush(stdout);
  const int rounds = reduce_until(session, file);
  const auto plan =
      session.world().plan(syncline::Collective::kAllReduce, syncline::DType::kI64, kCount);
  std::printf("rank %d of %d, local %d of %d, by %s, over %s: %s\n", session.rank(),
              session.world_size(), session.local_rank(), session.local_world_size(),
              session.rank_source().c_str(), plan.transport.c_str(), rounds > 0 ? "right" : "?");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc == 3 && std::string(argv[1]) == "--until" ? argv[2] : "");
  } catch (const syncline::Error& error) {
    std::fprintf(stderr, "net_rank: %s\n", error.what());
    return syncline::tools::exit_code_of(error.status());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "net_rank: %s\n", error.what());
    return 1;
  }
}
