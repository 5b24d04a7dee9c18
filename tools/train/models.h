// The networks that `syncline train` knows.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>

namespace syncline::tools {

struct ImageShape {
  int channels = 1;
  int rows = 0;
  int columns = 0;
};

// Externally synchronised, as every module.
class Classifier : public torch::nn::Module {
 public:
  // [n, channels, rows, columns] f32 -> [n, classes] scores before softmax.
  virtual torch::Tensor forward(torch::Tensor images) = 0;
};

// "small-cnn", "resnet18" or "resnet50", with weights from the global generator. Throws Error
// (invalid_argument) for another name or images too small for the network.
std::shared_ptr<Classifier> make_model(const std::string& name, ImageShape shape, int classes);

// He et al. 2015, "Deep Residual Learning for Image Recognition". `depth`: 18 or 50. Images below
// 64 pixels get the small stem of its section 4.2: one 3x3 convolution, no pooling.
std::shared_ptr<Classifier> make_resnet(int depth, ImageShape shape, int classes);

}  // namespace syncline::tools
