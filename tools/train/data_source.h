// Finds and reads what --data names.
#pragma once

#include <string>

#include "base/result.h"
#include "syncline/data/idx.h"

namespace syncline::tools {

struct TrainingData {
  data::ImageSet training;
  data::ImageSet test;
};

// "fashion-mnist" is what Debian's dataset-fashion-mnist installs; else a folder. Blocks while it
// reads. Errors: kFailedPrecondition if the package is missing (with the command), kInvalidArgument
// or kCorrupt with the file.
Result<TrainingData> load_data(const std::string& name);

}  // namespace syncline::tools
