#include <syncline/syncline.h>
#include <syncline/torch/ddp.h>
#include <torch/torch.h>

#include <cstdio>

int main() {
  auto session = syncline::init();  // 1: join the job; a world of one without a launcher
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(8, 32), torch::nn::ReLU(), torch::nn::Linear(32, 1));
  syncline::DistributedDataParallel ddp(net, session.world());  // 2: keep the copies in step
  torch::optim::SGD optimizer(net->parameters(), /*lr=*/0.05);

  torch::manual_seed(1000 + session.rank());  // 3: every rank draws samples of its own
  for (int step = 1; step <= 200; ++step) {
    auto x = torch::randn({64, 8});
    auto y = x.sum(1, /*keepdim=*/true);
    optimizer.zero_grad();
    auto loss = torch::mse_loss(ddp(x), y);  // 4: ddp(x) in place of net->forward(x)
    loss.backward();                         // .grad holds the mean over all ranks now
    optimizer.step();
    if (session.rank() == 0 && step % 50 == 0)
      std::printf("step %d loss %.4f\n", step, loss.item<float>());
  }
}
