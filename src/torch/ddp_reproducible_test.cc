// Reproducible gradients: the same bits by every bucket layout and schedule.
#include <random>

#include "syncline/torch/ddp.h"
#include "torch/test_ranks.h"
#include "torch/test_tensors.h"

namespace syncline::torch_detail {
namespace {

using at::Tensor;

// Gradients of one rank: large values that cancel among the ranks, and small ones that are lost
// wherever they meet a large one first.
Tensor mixed_gradient(int rank, std::int64_t elements) {
  std::mt19937 random(static_cast<unsigned>(rank) + 5);
  std::uniform_int_distribution<int> role(0, 3);
  std::uniform_real_distribution<float> small(-1, 1);
  Tensor g = at::empty({elements});
  auto* data = g.data_ptr<float>();
  for (std::int64_t i = 0; i < elements; ++i) {
    const float large = 3e7f + static_cast<float>(i % 1000) * 1024;
    const float values[] = {large, -large, small(random), small(random)};
    data[i] = values[role(random)];
  }
  return g;
}

struct Layout {
  std::string schedule;
  double bucket_mb;
};

std::vector<Tensor> gradients(Communicator& world, const Layout& layout) {
  std::vector<Tensor> parameters;
  NamedTensors named;
  for (const std::int64_t elements : {5, 1000, 37, 4096, 300}) {
    parameters.push_back(at::zeros({elements}).set_requires_grad(true));
    named.emplace_back("p" + std::to_string(named.size()), parameters.back());
  }
  DistributedDataParallel ddp(
      named, {}, world,
      DdpOptions().schedule(layout.schedule).first_bucket_mb(1e-5).bucket_cap_mb(layout.bucket_mb));
  ddp.pass([&] {
       Tensor loss = at::zeros({});
       for (const Tensor& p : parameters) {
         loss = loss + (p * mixed_gradient(world.rank(), p.numel())).sum();
       }
       return loss;
     })
      .backward();
  std::vector<Tensor> result;
  for (const Tensor& p : parameters) result.push_back(p.grad().clone());
  return result;
}

TEST(DdpReproducible, SameBitsByEveryBucketLayoutAndSchedule) {
  SessionOptions options;
  options.reproducible = true;
  for (const int ranks : {4, 5}) {
    const auto expected = each_rank<std::vector<Tensor>>(
        ranks,
        [](Communicator& world) {
          return gradients(world, {"", 25});
        },
        options);
    for (const Layout& layout : {Layout{"", 1e-4},
                                 {"", 2e-3},
                                 {"one_shot", 1e-4},
                                 {"two_shot", 25},
                                 {"tree", 1e-2},
                                 {"halving_doubling", 2e-3}}) {
      const auto all = each_rank<std::vector<Tensor>>(
          ranks, [&](Communicator& world) { return gradients(world, layout); }, options);
      for (const auto& grads : all) {
        for (std::size_t i = 0; i < grads.size(); ++i) {
          EXPECT_TRUE(same_bits(grads[i], expected[0][i]))
              << "parameter " << i << " by '" << layout.schedule << "' in buckets of "
              << layout.bucket_mb << " MiB over " << ranks << " ranks";
        }
      }
    }
    // The inputs tell orders apart: the ring gives other bits.
    const auto ring = each_rank<std::vector<Tensor>>(ranks, [](Communicator& world) {
      return gradients(world, {"ring", 25});
    });
    EXPECT_FALSE(same_bits(ring[0][3], expected[0][3]));
  }
}

TEST(DdpReproducible, RefusesARing) {
  SessionOptions options;
  options.reproducible = true;
  run_ranks(
      3,
      [](Communicator& world) {
        try {
          gradients(world, {"ring", 25});
          ADD_FAILURE() << "was accepted";
        } catch (const std::exception& error) {
          EXPECT_NE(std::string(error.what()).find("not admitted"), std::string::npos)
              << error.what();
        }
      },
      options);
}

}  // namespace
}  // namespace syncline::torch_detail
