// inproc: ranks are threads of one process; frames pass through rings on the heap.
#pragma once

#include <memory>
#include <utility>

#include "event/poller.h"
#include "transport/endpoint.h"

namespace syncline::transport::inproc {

struct Side {
  int rank = 0;
  event::Poller* poller = nullptr;  // its doorbell wakes this side; must outlive the peer's sends
};

// A connected pair: the first endpoint belongs to `a` and talks to `b`.
std::pair<std::unique_ptr<Endpoint>, std::unique_ptr<Endpoint>> connect(const Side& a,
                                                                        const Side& b,
                                                                        std::size_t ring_capacity);

}  // namespace syncline::transport::inproc
