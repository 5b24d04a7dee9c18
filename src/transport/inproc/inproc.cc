#include "transport/inproc/inproc.h"

#include <unistd.h>

#include <new>
#include <string>

#include "transport/ring_endpoint.h"

namespace syncline::transport::inproc {
namespace {

std::unique_ptr<Endpoint> make_side(const Side& peer, const std::shared_ptr<void>& memory,
                                    void* out, void* in, std::size_t capacity) {
  RingEndpointOptions options;
  options.memory = memory;
  options.outbound = out;
  options.inbound = in;
  options.capacity = capacity;
  options.peer_doorbell_fd = ::dup(peer.poller->doorbell_fd());
  options.peer = "rank " + std::to_string(peer.rank) + " (a thread of this process)";
  options.peer_rank = peer.rank;
  options.transport_name = "inproc";
  return std::make_unique<RingEndpoint>(std::move(options));
}

}  // namespace

std::pair<std::unique_ptr<Endpoint>, std::unique_ptr<Endpoint>> connect(const Side& a,
                                                                        const Side& b,
                                                                        std::size_t ring_capacity) {
  const std::size_t bytes = ring_bytes(ring_capacity);
  static constexpr auto kAlignment = std::align_val_t{64};
  std::shared_ptr<void> memory(::operator new(2 * bytes, kAlignment),
                               [](void* p) { ::operator delete(p, kAlignment); });
  auto* first = static_cast<std::byte*>(memory.get());
  auto* second = first + bytes;
  init_ring(first);
  init_ring(second);
  return {make_side(b, memory, first, second, ring_capacity),
          make_side(a, memory, second, first, ring_capacity)};
}

}  // namespace syncline::transport::inproc
