// One rank of heal_test.py: reduces again and again and says when each call began and ended.
//
//   net_heal_rank --count N --times FILE --until FILE
//
// Every sum is compared bit for bit. FILE gets one line a call: begin and end on the monotonic
// clock, ns; the begin at once. Ends when rank 0 sees the file of --until. Exit codes are those of
// the tools.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "syncline/syncline.h"
#include "tests/net/rank_main.h"

namespace {

long long now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

constexpr std::size_t kPeriod = 97;

// Small integers: exact in f32 whatever the order. A pattern of one period, to be quick.
std::vector<float> pattern(int round, int factor) {
  std::vector<float> values(kPeriod);
  for (std::size_t i = 0; i < kPeriod; ++i) {
    values[i] = static_cast<float>((static_cast<int>(i) + round % 13) * factor);
  }
  return values;
}

void fill(std::vector<float>& data, const std::vector<float>& values) {
  for (std::size_t at = 0; at < data.size(); at += kPeriod) {
    const std::size_t part = std::min(kPeriod, data.size() - at);
    std::copy_n(values.begin(), part, data.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

void compare(const std::vector<float>& data, const std::vector<float>& values, int round) {
  for (std::size_t at = 0; at < data.size(); at += kPeriod) {
    const std::size_t part = std::min(kPeriod, data.size() - at);
    if (std::memcmp(&data[at], values.data(), part * sizeof(float)) == 0) continue;
    throw std::runtime_error("wrong sum near element " + std::to_string(at) + " of round " +
                             std::to_string(round));
  }
}

void reduce_until(syncline::Session& session, std::size_t count, std::FILE* times,
                  const std::string& until) {
  std::vector<float> data(count);
  const int n = session.world_size();
  constexpr float kStop = 1 << 20;
  bool stop = false;
  for (int round = 0; !stop; ++round) {
    fill(data, pattern(round, session.rank() + 1));
    const bool last = ::access(until.c_str(), F_OK) == 0;
    data[0] = session.rank() == 0 && last ? kStop : 0;
    std::fprintf(times, "%lld ", now_ns());
    std::fflush(times);
    session.world().all_reduce({data.data(), count}).wait();
    std::fprintf(times, "%lld\n", now_ns());
    std::fflush(times);
    stop = data[0] >= kStop;
    const std::vector<float> expected = pattern(round, n * (n + 1) / 2);
    data[0] = expected[0];
    compare(data, expected, round);
  }
}

void run(syncline::net::RankOptions options) {
  syncline::Session session = syncline::init();
  std::printf("ready\n");
  std::fflush(stdout);
  std::FILE* times = std::fopen(options["--times"].c_str(), "w");
  if (times == nullptr) throw std::runtime_error("cannot write " + options["--times"]);
  reduce_until(session, std::stoul(options["--count"]), times, options["--until"]);
  std::fclose(times);
  std::printf("right\n");
}

}  // namespace

int main(int argc, char** argv) {
  return syncline::net::rank_main("net_heal_rank", argc, argv, run);
}
