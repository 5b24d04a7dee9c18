// One rank of soak_test.py: random collectives without end, each compared with an oracle.
//
//   net_soak_rank --seed N --until FILE --progress FILE
//
// The seed gives the calls: group, kind, type, operation, count, schedule, root, in place or not;
// inputs and expected results come from tests/harness (exact, bit for bit). Ends when rank 0 sees
// the file of --until. --progress gets one line about every second: rounds, KiB of resident memory,
// open descriptors, threads. Exit codes are those of the tools.
#include <dirent.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "syncline/syncline.h"
#include "tests/conformance/case.h"
#include "tests/harness/schedules.h"
#include "tests/net/rank_main.h"

namespace {

using syncline::Collective;
using syncline::Communicator;
using syncline::DType;
using syncline::ReduceOp;
using syncline::conformance::Case;
using syncline::conformance::CaseRunner;

constexpr double kLargestLog2 = 20;  // elements
constexpr int kStopEvery = 8;        // rounds

class Soak {
 public:
  Soak(syncline::Session& session, std::uint64_t seed) : session_(session), random_(seed) {
    const Communicator world = session.world();
    const int local = session.local_world_size();
    groups_ = {world, world.split(world.rank() / local),  // ranks of one host
               world.split(world.rank() % local)};        // one rank of each host
  }

  void round() {
    // Every rank draws the same numbers, whatever its groups.
    const Communicator& group = groups_[random_() % groups_.size()];
    // A fresh one each time, so that no memory but the product's can grow.
    const std::string wrong = CaseRunner(group).run(draw(group.size()));
    if (!wrong.empty()) throw std::runtime_error(wrong);
  }

  bool everybody_stops(bool wanted) {
    std::int64_t flag = wanted ? 1 : 0;
    session_.world().all_reduce({&flag, 1}, ReduceOp::kMax).wait();
    return flag != 0;
  }

 private:
  template <class T>
  T pick(const std::vector<T>& from) {
    return from[random_() % from.size()];
  }

  Case draw(int ranks) {
    Case what;
    what.kind = static_cast<Collective>(random_() % syncline::kCollectiveCount);
    do {
      what.type = static_cast<DType>(random_() % syncline::kDTypeCount);
      what.op = static_cast<ReduceOp>(random_() % syncline::kReduceOpCount);
    } while (!syncline::harness::is_defined(what.type, what.op));
    const double log2 = kLargestLog2 * static_cast<double>(random_() % 1024) / 1024;
    what.count = static_cast<std::size_t>(std::exp2(log2)) - 1;
    what.root = static_cast<int>(random_() % static_cast<unsigned>(ranks));
    what.in_place = random_() % 2 == 0;
    if (random_() % 2 == 0) {
      what.schedule = pick(syncline::harness::schedules_for(what.kind, ranks));
    }
    return what;
  }

  syncline::Session& session_;
  std::mt19937_64 random_;
  std::vector<Communicator> groups_;
};

int open_descriptors() {
  int count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count - 3;  // ".", "..", the folder itself
}

std::string of_status(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == name + ":") {
      status >> word;
      return word;
    }
  }
  return "0";
}

void run(syncline::net::RankOptions options) {
  syncline::Session session = syncline::init();
  Soak soak(session, std::stoull(options["--seed"]));
  std::ofstream progress(options["--progress"]);
  std::time_t told = 0;
  for (long round = 1;; ++round) {
    soak.round();
    if (const std::time_t now = std::time(nullptr); now != told) {
      told = now;
      progress << round << ' ' << of_status("VmRSS") << ' ' << open_descriptors() << ' '
               << of_status("Threads") << std::endl;
    }
    if (round % kStopEvery != 0) continue;
    if (soak.everybody_stops(::access(options["--until"].c_str(), F_OK) == 0)) {
      std::printf("right %ld\n", round);
      return;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  return syncline::net::rank_main("net_soak_rank", argc, argv, run);
}
