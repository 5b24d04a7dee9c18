// StoreClients: how a worker reaches a key-value store. Where hosts sum, tensors are a store of
// their own, whose workers the hosts are; otherwise all three are one client.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "session/host_relay.h"

namespace syncline::session {

struct StoreClients {
  std::shared_ptr<ps::Client> tables;   // and the directory; of all workers
  std::shared_ptr<ps::Client> tensors;  // makes them, sets optimisers, reads states
  std::shared_ptr<ps::Client> sums;  // pushes and pulls tensors: of this host's relay, or `tensors`
  std::shared_ptr<HostRelay> relay;  // null: hosts do not sum

  // Each once; null where there are fewer.
  std::array<ps::Client*, 3> all() const {
    return {tables.get(), tensors != tables ? tensors.get() : nullptr,
            sums != tensors ? sums.get() : nullptr};
  }
  // Those that this worker's pushes go through, and the news of its clocks.
  std::vector<ps::Client*> in_use() const {
    std::vector<ps::Client*> each{tables.get()};
    if (sums != tables) each.push_back(sums.get());
    return each;
  }
};

}  // namespace syncline::session
