#include "tools/train/data_source.h"

#include <filesystem>

#include "fmt/format.h"

namespace syncline::tools {
namespace {

constexpr const char* kFashionMnist = "/usr/share/datasets/fashion-mnist";

Result<std::string> folder_of(const std::string& name) {
  std::error_code error;
  if (name == "fashion-mnist") {
    if (std::filesystem::is_directory(kFashionMnist, error)) return std::string(kFashionMnist);
    return Status(
        Code::kFailedPrecondition,
        fmt::format("--data fashion-mnist: {} is not there; install it with: apt-get install "
                    "dataset-fashion-mnist, or give a folder with "
                    "MNIST's four IDX files",
                    kFashionMnist));
  }
  if (name.find(".tar") != std::string::npos) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("--data {}: tar shards are not built yet; give a folder with MNIST's four "
                    "IDX files, or fashion-mnist",
                    name));
  }
  if (std::filesystem::is_directory(name, error)) return name;
  return Status(
      Code::kInvalidArgument,
      fmt::format("--data {}: no such folder; give fashion-mnist or a folder with MNIST's four "
                  "IDX files (train-images-idx3-ubyte, ..., plain or .gz)",
                  name));
}

}  // namespace

Result<TrainingData> load_data(const std::string& name) {
  const Result<std::string> folder = folder_of(name);
  if (!folder.ok()) return folder.status();
  try {
    TrainingData result{data::read_mnist(folder.value(), "train"),
                        data::read_mnist(folder.value(), "t10k")};
    const auto& [training, test] = result;
    if (training.count == 0 || test.count == 0) {
      return Status(Code::kInvalidArgument, fmt::format("--data {}: the image set is empty", name));
    }
    if (training.rows != test.rows || training.columns != test.columns) {
      return Status(
          Code::kInvalidArgument,
          fmt::format("--data {}: training images have {} x {} pixels, test images {} x {}; "
                      "these files do not belong together",
                      name, training.rows, training.columns, test.rows, test.columns));
    }
    return result;
  } catch (const Error& error) {
    return error.status();
  }
}

}  // namespace syncline::tools
