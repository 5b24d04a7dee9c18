// Repeats what oracle.py did, with Syncline: DIR holds its files. Exit code 0 when the final
// weights and statistics agree. With the same LibTorch they agree bit for bit: two addends have one
// order.
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "syncline/session.h"
#include "syncline/torch/ddp.h"

namespace {

namespace F = torch::nn::functional;
using torch::Tensor;

constexpr int kSteps = 30, kRanks = 2, kBatch = 6;
// Other LibTorch than the oracle's: kernels may round differently, 1e-7 relative a step.
constexpr double kTolerance = 1e-5;

struct NetImpl : torch::nn::Module {
  NetImpl()
      : conv(register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3)))),
        norm(register_module("norm", torch::nn::BatchNorm2d(4))),
        fc(register_module("fc", torch::nn::Linear(144, 5))),
        spare(register_module("spare", torch::nn::Linear(144, 5))),
        idle(register_module("idle", torch::nn::Linear(3, 3))) {}
  Tensor forward(const Tensor& x, bool use_spare) {
    const Tensor h = torch::relu(norm(conv(x))).flatten(1);
    return use_spare ? fc(h) + spare(h) : fc(h);
  }
  torch::nn::Conv2d conv;
  torch::nn::BatchNorm2d norm;
  torch::nn::Linear fc, spare, idle;
};
TORCH_MODULE(Net);

Tensor read(const std::string& path, torch::ScalarType type) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
  TORCH_CHECK(!bytes.empty(), "cannot read ", path, "; run oracle.py first");
  Tensor result =
      torch::empty({static_cast<std::int64_t>(bytes.size() / torch::elementSize(type))}, type);
  std::copy(bytes.begin(), bytes.end(), static_cast<char*>(result.data_ptr()));
  return result;
}

std::vector<Tensor> tensors_of(NetImpl& net) {
  std::vector<Tensor> result = net.parameters();
  for (const auto& buffer : net.buffers()) {
    if (buffer.is_floating_point()) result.push_back(buffer);
  }
  return result;
}

Tensor values(NetImpl& net) {
  std::vector<Tensor> flat;
  for (const auto& t : tensors_of(net)) flat.push_back(t.detach().flatten());
  return torch::cat(flat);
}

void load(NetImpl& net, const Tensor& flat) {
  const torch::NoGradGuard no_grad;
  std::int64_t offset = 0;
  for (const auto& t : tensors_of(net)) {
    t.copy_(flat.narrow(0, offset, t.numel()).view(t.sizes()));
    offset += t.numel();
  }
  TORCH_CHECK(offset == flat.numel(), "the oracle trained another model");
}

Tensor train(syncline::Communicator& world, const Tensor& initial, const Tensor& x,
             const Tensor& y) {
  const int rank = world.rank();
  Net net;
  if (rank == 0) load(*net, initial);
  syncline::DistributedDataParallel ddp(net, world);
  torch::optim::SGD sgd(net->parameters(),
                        torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.001));
  for (int step = 0; step < kSteps; ++step) {
    for (auto& p : net->parameters()) p.mutable_grad().reset();
    const Tensor xs = x[step][rank], ys = y[step][rank];
    const bool use_spare = rank == 0 && step % 2 == 1;
    const int parts = step % 3 == 2 ? 2 : 1;
    for (int part = 0; part < parts; ++part) {
      const auto sync = ddp.sync_when(part + 1 == parts);
      const int rows = kBatch / parts;
      F::cross_entropy(ddp(xs.narrow(0, part * rows, rows), use_spare),
                       ys.narrow(0, part * rows, rows))
          .backward();
    }
    sgd.step();
  }
  return values(*net);
}

int run(const std::string& folder) {
  torch::set_num_threads(1);
  const Tensor initial = read(folder + "/initial.f32", torch::kFloat);
  const Tensor expected = read(folder + "/final.f32", torch::kFloat);
  const Tensor x = read(folder + "/x.f32", torch::kFloat).view({kSteps, kRanks, kBatch, 1, 8, 8});
  const Tensor y = read(folder + "/y.i64", torch::kLong).view({kSteps, kRanks, kBatch});
  auto sessions = syncline::init_threads(kRanks);
  std::vector<Tensor> results(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto index = static_cast<std::size_t>(rank);
      syncline::Session session = std::move(sessions[index]);
      results[index] = train(session.world(), initial, x, y);
    });
  }
  for (auto& thread : threads) thread.join();
  const double difference = (results[0] - expected).abs().max().item<double>();
  const double moved = (initial - expected).abs().max().item<double>();
  const bool bitwise = torch::equal(results[0], expected);
  std::printf("largest difference %.3g (weights moved by up to %.3g)%s\n", difference, moved,
              bitwise ? ", equal bit for bit" : "");
  return bitwise || (difference <= kTolerance && moved > 100 * kTolerance) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: ddp_equivalence DIR\n"), 2;
  try {
    return run(argv[1]);
  } catch (const std::exception& e) {
    return std::fprintf(stderr, "ddp_equivalence: %s\n", e.what()), 1;
  }
}
