#include "tools/train/models.h"

#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/pooling.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>

#include "syncline/status.h"

namespace syncline::tools {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

constexpr int kFeatures1 = 32;
constexpr int kFeatures2 = 64;
constexpr int kHidden = 128;

// Two convolutions and two dense layers, pooling before the activation: the same result as after it
// for a quarter of the work.
class SmallCnn : public Classifier {
 public:
  SmallCnn(ImageShape shape, int classes)
      : conv1_(nn::Conv2dOptions(shape.channels, kFeatures1, 3).padding(1)),
        conv2_(nn::Conv2dOptions(kFeatures1, kFeatures2, 3).padding(1)),
        fc1_(kFeatures2 * (shape.rows / 4) * (shape.columns / 4), kHidden),
        fc2_(kHidden, classes) {
    register_module("conv1", conv1_);
    register_module("conv2", conv2_);
    register_module("fc1", fc1_);
    register_module("fc2", fc2_);
  }

  torch::Tensor forward(torch::Tensor x) override {
    const auto pool = F::MaxPool2dFuncOptions(2);
    x = torch::relu(F::max_pool2d(conv1_(x), pool));
    x = torch::relu(F::max_pool2d(conv2_(x), pool));
    return fc2_(torch::relu(fc1_(x.flatten(1))));
  }

 private:
  nn::Conv2d conv1_, conv2_;
  nn::Linear fc1_, fc2_;
};

}  // namespace

std::shared_ptr<Classifier> make_model(const std::string& name, ImageShape shape, int classes) {
  if (std::min(shape.rows, shape.columns) < 8) {
    throw Error(Status(Code::kInvalidArgument, "images of " + std::to_string(shape.rows) + " x " +
                                                   std::to_string(shape.columns) +
                                                   " pixels are too small for " + name +
                                                   ", which needs 8 x 8; use larger images"));
  }
  if (name == "small-cnn") return std::make_shared<SmallCnn>(shape, classes);
  if (name == "resnet18") return make_resnet(18, shape, classes);
  if (name == "resnet50") return make_resnet(50, shape, classes);
  throw Error(Status(Code::kInvalidArgument,
                     "unknown model '" + name + "'; use small-cnn, resnet18 or resnet50"));
}

}  // namespace syncline::tools
