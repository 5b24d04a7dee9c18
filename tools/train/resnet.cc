#include <torch/nn/functional/pooling.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <array>

#include "tools/train/models.h"

namespace syncline::tools {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

nn::Conv2d convolution(int in, int out, int size, int stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false));
}

// Plain block (18): 3x3, 3x3. Bottleneck (50): 1x1, 3x3 with the stride, 1x1 to four times the
// width.
class BlockImpl : public nn::Module {
 public:
  BlockImpl(int in, int width, int stride, bool bottleneck) {
    const int out = bottleneck ? 4 * width : width;
    if (bottleneck) {
      add(convolution(in, width, 1, 1), width);
      add(convolution(width, width, 3, stride), width);
      add(convolution(width, out, 1, 1), out);
    } else {
      add(convolution(in, width, 3, stride), width);
      add(convolution(width, out, 3, 1), out);
    }
    if (stride != 1 || in != out) {
      shortcut_ = nn::Sequential(convolution(in, out, 1, stride), nn::BatchNorm2d(out));
      register_module("shortcut", shortcut_);
    }
  }

  torch::Tensor forward(torch::Tensor x) {
    torch::Tensor y = x;
    for (std::size_t i = 0; i < convs_.size(); ++i) {
      y = norms_[i](convs_[i](y));
      if (i + 1 < convs_.size()) y = y.relu_();
    }
    return (y + (shortcut_.is_empty() ? x : shortcut_->forward(x))).relu_();
  }

 private:
  void add(nn::Conv2d conv, int out) {
    const std::string number = std::to_string(convs_.size() + 1);
    convs_.push_back(register_module("conv" + number, std::move(conv)));
    norms_.push_back(register_module("bn" + number, nn::BatchNorm2d(out)));
  }

  std::vector<nn::Conv2d> convs_;
  std::vector<nn::BatchNorm2d> norms_;
  nn::Sequential shortcut_{nullptr};
};
TORCH_MODULE(Block);

class ResNet : public Classifier {
 public:
  ResNet(int depth, ImageShape shape, int classes)
      : large_(std::min(shape.rows, shape.columns) >= 64),
        stem_(large_ ? convolution(shape.channels, 64, 7, 2)
                     : convolution(shape.channels, 64, 3, 1)),
        stem_norm_(64) {
    register_module("conv1", stem_);
    register_module("bn1", stem_norm_);
    const bool bottleneck = depth == 50;
    const std::array<int, 4> blocks =
        bottleneck ? std::array<int, 4>{3, 4, 6, 3} : std::array<int, 4>{2, 2, 2, 2};
    int channels = 64;
    for (int stage = 0; stage < 4; ++stage) {
      const int width = 64 << stage;
      for (int block = 0; block < blocks[static_cast<std::size_t>(stage)]; ++block) {
        const int stride = stage > 0 && block == 0 ? 2 : 1;
        body_->push_back(Block(channels, width, stride, bottleneck));
        channels = bottleneck ? 4 * width : width;
      }
    }
    register_module("body", body_);
    head_ = register_module("fc", nn::Linear(channels, classes));
    initialise();
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = stem_norm_(stem_(x)).relu_();
    if (large_) x = F::max_pool2d(x, F::MaxPool2dFuncOptions(3).stride(2).padding(1));
    return head_(body_->forward(x).mean({2, 3}));
  }

 private:
  // Section 3.4 of the paper: He et al. 2015, "Delving Deep into Rectifiers".
  void initialise() {
    for (const auto& module : modules(false)) {
      if (auto* conv = module->as<nn::Conv2d>()) {
        nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
      }
    }
  }

  bool large_;
  nn::Conv2d stem_;
  nn::BatchNorm2d stem_norm_;
  nn::Sequential body_;
  nn::Linear head_{nullptr};
};

}  // namespace

std::shared_ptr<Classifier> make_resnet(int depth, ImageShape shape, int classes) {
  return std::make_shared<ResNet>(depth, shape, classes);
}

}  // namespace syncline::tools
