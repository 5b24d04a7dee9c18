// Greetings: the messages that set up a pair (bytes in shm.h). Blocking with a deadline.
#pragma once

#include <vector>

#include "base/result.h"
#include "transport/shm/shm.h"

namespace syncline::transport::shm {

struct Greeting {
  std::int32_t rank = -1;
  std::int32_t to = -1;
  std::uint64_t capacity = 0;
  std::uint64_t incarnation = 0;
  bool usable = true;
  Token token{};
};

// Does not block: the message is far smaller than any socket buffer. Descriptors stay the caller's.
Status send_greeting(int socket, const Greeting& greeting, const std::vector<int>& descriptors);

struct Received {
  Greeting greeting;
  std::vector<int> descriptors;  // the caller closes them
};
// kTimeout, kLinkDown when the other side closed, kCorrupt for other bytes.
Result<Received> receive_greeting(int socket, Nanos deadline);

// Waits for readability.
Status wait_readable(int socket, Nanos deadline);
// The process at the other end belongs to this user.
bool same_user(int socket);

}  // namespace syncline::transport::shm
