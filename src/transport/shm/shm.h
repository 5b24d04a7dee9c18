// shm: ranks of one host exchange frames through rings in shared memory.
//
// The memory is a memfd and travels with the doorbells over a Unix socket in the abstract
// namespace: nothing ever has a name in a file system, so nothing is left behind, not even after
// SIGKILL, and a small /dev/shm does not matter. Abstract names belong to one network namespace, so
// ranks in different namespaces never meet here. The socket stays open: its end tells at once that
// the peer has died.
//
// Bytes of a greeting (SOCK_SEQPACKET, little-endian): magic u32, version u32, rank i32, to i32,
// capacity u64, incarnation u64, usable u8, pad u8[7], token u8[32]. The dialer's carries two
// descriptors (memfd, its doorbell), the answer one (its doorbell); none when usable = 0.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "event/poller.h"
#include "transport/endpoint.h"

namespace syncline::transport::shm {

// Known to the ranks of one job only; keeps jobs apart. (Foreign users are refused by the kernel's
// word on who they are.)
using Token = std::array<std::byte, 32>;

struct Peer {
  int rank = -1;
  std::uint64_t incarnation = 0;
  std::string socket_name;  // its Listener's
  std::string label;        // "rank 3 (host b, pid 12)"
};

struct Self {
  int rank = 0;
  std::uint64_t incarnation = 0;
  Token token{};
  std::size_t ring_capacity = 0;  // the same on all ranks of the host
  event::Poller* poller = nullptr;
};

// A listening socket with a random name. Externally synchronised.
class Listener {
 public:
  static Result<std::unique_ptr<Listener>> open();
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const std::string& name() const { return name_; }
  int fd() const { return fd_; }

 private:
  Listener(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}
  int fd_;
  std::string name_;
};

using Endpoints = std::map<int, std::unique_ptr<Endpoint>>;

// Connects this rank with all `peers`; every one of them calls it too. Blocks at most until
// `deadline` (monotonic). A pair for which the memory cannot be had is missing from the result on
// both sides and has to use another transport; every other failure is an error.
Result<Endpoints> connect(const Listener& listener, const Self& self,
                          const std::vector<Peer>& peers, Nanos deadline);

}  // namespace syncline::transport::shm
