// Anonymous shared memory that cannot shrink under its users.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"

namespace syncline::transport::shm {

struct Mapping {
  int fd = -1;  // open only from create(); the caller closes it
  std::shared_ptr<void> memory;
};

// kExhausted when the machine has no room: the pages are there before anybody touches them.
Result<Mapping> create(std::size_t bytes);
// Maps a peer's descriptor after checking size and seals. Does not close it.
Result<std::shared_ptr<void>> map(int fd, std::size_t bytes);

}  // namespace syncline::transport::shm
