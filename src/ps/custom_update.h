// Update functions that programs bring themselves (optim::register_update).
#pragma once

#include <memory>

#include "syncline/optim.h"

namespace syncline::ps {

struct CustomUpdate {
  optim::UpdateFunction update;
  std::size_t slots = 0;
  float initial = 0;
};

// Null: this process knows none of that number. Thread-safe.
std::shared_ptr<const CustomUpdate> find_custom_update(std::uint32_t id);

}  // namespace syncline::ps
