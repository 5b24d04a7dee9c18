// One rank of the jobs that the tests start with servers.
//
//   served_rank [--servers N] [--until FILE] [--fail RANK]
//
// Expects N servers, reduces until rank 0 sees FILE; rank RANK then ends with exit code 3.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

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

void run(syncline::net::RankOptions options) {
  syncline::Session session = syncline::init();
  const std::string wanted = options.count("--servers") != 0 ? options["--servers"] : "0";
  if (session.servers() != std::stoi(wanted)) throw std::runtime_error("other servers");
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
