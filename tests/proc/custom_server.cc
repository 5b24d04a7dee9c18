// A server that knows an update of its own, number 3: ten times the gradient, downwards.
#include <cstdio>

#include "syncline/optim.h"
#include "syncline/server.h"
#include "tests/net/rank_main.h"

namespace {

void ten_times(const syncline::optim::Optimizer&, std::uint64_t, std::size_t count, float* weights,
               float* const*, const float* gradient) {
  for (std::size_t i = 0; i < count; ++i) weights[i] -= 10 * gradient[i];
}

void run(syncline::net::RankOptions) {
  syncline::optim::register_update(3, ten_times);
  syncline::serve();
}

}  // namespace

int main(int argc, char** argv) {
  return syncline::net::rank_main("custom_server", argc, argv, run);
}
