// Status: the outcome of an operation. Error: the one exception type at the public surface.
#ifndef SYNCLINE_STATUS_H_
#define SYNCLINE_STATUS_H_

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace syncline {

// The closed list of outcomes. The numeric values travel on the wire: never renumber.
enum class Code : std::uint8_t {
  kOk = 0,
  kInvalidArgument = 1,     // the call itself is wrong; nothing was sent
  kFailedPrecondition = 2,  // right call, wrong time: e.g. the communicator died earlier
  kUnsupported = 3,         // named in the docs, not built yet or not on this machine
  kTimeout = 4,             // a deadline passed; the message says what was awaited and from whom
  kCancelled = 5,
  kLinkDown = 6,    // the path to a peer broke, the peer itself may live
  kPeerLost = 7,    // a peer died or fell silent; peer() names it
  kMismatch = 8,    // ranks disagree on an operation; the message shows both sides
  kCorrupt = 9,     // bytes did not verify
  kExhausted = 10,  // memory, descriptors or ports ran out
  kShutdown = 11,   // the session is leaving
  kInternal = 12,   // a bug of ours
};

// "peer_lost", "timeout", ...
const char* to_string(Code code);

// Immutable value; copying shares the message. An ok status holds no memory.
class Status {
 public:
  Status() = default;  // ok
  Status(Code code, std::string message);

  bool ok() const { return detail_ == nullptr; }
  Code code() const;
  const std::string& message() const;
  int peer() const;                      // rank at fault, -1 if none
  std::uint64_t view() const;            // membership view, 0 if none
  const std::string& operation() const;  // "all_reduce #12 'fc1.weight'", empty if none
  const Status* cause() const;           // nullptr if none

  // Copies with one field changed; on an ok status they do nothing.
  Status with_peer(int rank) const;
  Status with_view(std::uint64_t view) const;
  Status with_operation(std::string operation) const;
  Status caused_by(const Status& cause) const;

  // One line: "peer_lost: all_reduce #12: rank 3 ...; caused by link_down: ...".
  std::string to_string() const;

 private:
  struct Detail;
  Status with(void (*edit)(Detail&, const void*), const void* argument) const;
  std::shared_ptr<const Detail> detail_;
};

// Thrown by the public API; carries the Status.
class Error : public std::runtime_error {
 public:
  explicit Error(Status status);
  const Status& status() const { return status_; }
  Code code() const { return status_.code(); }
  int peer() const { return status_.peer(); }

 private:
  Status status_;
};

// Throws Error unless ok.
void throw_if_error(const Status& status);

}  // namespace syncline

#endif  // SYNCLINE_STATUS_H_
