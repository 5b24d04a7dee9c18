// Listener and Attempt: how connections between two addresses come to be, with sockets (tcp/) or in
// a simulated network (sim/).
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "transport/stream.h"
#include "transport/tcp/address.h"

namespace syncline::transport {

// Confined. Never blocks. Closed when it is destroyed.
class Listener {
 public:
  struct Accepted {
    std::unique_ptr<Stream> stream;  // null: nobody waits
    tcp::Address from;
  };
  virtual ~Listener() = default;
  // The next waiting connection. kExhausted: not now, try again later.
  virtual Result<Accepted> accept() = 0;
  virtual tcp::Address address() const = 0;
  // What a poller watches for reading; -1: nothing, the owner looks by itself.
  virtual int fd() const = 0;
};

// A connection that is being made. Confined. Never blocks; given up when it is destroyed.
class Attempt {
 public:
  virtual ~Attempt() = default;
  // 0: connected. EINPROGRESS: not decided yet. Else the errno that says why it failed.
  virtual int error() = 0;
  // Of this end, once connected.
  virtual tcp::Address local() const = 0;
  // Once, when connected.
  virtual std::unique_ptr<Stream> take() = 0;
  // What a poller watches for writing; -1: nothing, the owner looks by itself.
  virtual int fd() const = 0;
};

// Begins a connection to an address, from a local one if that has a length.
using Connect =
    std::function<std::unique_ptr<Attempt>(const tcp::Address& to, const tcp::Address& from)>;

}  // namespace syncline::transport
