// Two ranks as threads' worth of sessions, and one sampler: every public header of the core
// compiles in C++17 and links.
#include <syncline/data/idx.h>
#include <syncline/data/sampler.h>
#include <syncline/syncline.h>

#include <cstdio>
#include <vector>

static_assert(__cplusplus < 202002L, "this consumer is to prove that C++17 is enough");

int main() {
  std::vector<syncline::Session> ranks = syncline::init_threads(2);
  std::vector<float> values[2] = {{1, 2, 3}, {10, 20, 30}};
  std::vector<syncline::Work> works;
  for (int rank = 0; rank < 2; ++rank) {
    works.push_back(ranks[rank].world().all_reduce(syncline::TensorView(values[rank].data(), 3)));
  }
  for (auto& work : works) work.wait();
  for (const auto& sum : values) {
    if (sum != std::vector<float>{11, 22, 33}) return std::puts("wrong sum"), 1;
  }
  syncline::data::DistributedSampler sampler(10, 2, 1);
  if (!sampler.next(3)) return 1;
  std::puts("core " SYNCLINE_VERSION_STRING " works");
}
