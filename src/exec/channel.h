// Channel: the engine's view of one peer. Confined to the baton's holder.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/endpoint.h"

namespace syncline::exec {

struct Channel {
  int world_rank = -1;
  std::string peer;  // "rank 3 (host b)" for messages
  std::unique_ptr<transport::Endpoint> endpoint;

  // "rank 3"
  std::string short_name() const { return peer.substr(0, peer.find(" (")); }

  // front() asks the endpoint at most once a pass: with sockets each question is a system call.
  const transport::Frame* front(std::uint64_t pass) {
    if (pass_ != pass) {
      front_ = endpoint->front();
      pass_ = pass;
    }
    return front_;
  }
  void pop() {
    endpoint->pop();
    pass_ = 0;
    ++pops;
  }

  // Of one that was refused in this pass a frame as long is refused too: many operations then need
  // not all ask, which with sockets costs system calls each.
  transport::SendResult try_send(const transport::FrameHeader& header, const void* payload,
                                 std::uint64_t pass) {
    if (refused_pass_ == pass && header.length >= refused_bytes_) {
      return transport::SendResult::kWouldBlock;
    }
    const transport::SendResult result = endpoint->try_send(header, payload);
    if (result == transport::SendResult::kWouldBlock) {
      refused_pass_ = pass;
      refused_bytes_ = header.length;
    }
    return result;
  }

  Nanos heard = 0;    // the endpoint's last_heard() when last looked at
  Nanos excused = 0;  // silence that was this process's own standstill
  Nanos missed = 0;   // since when an operation needs the peer, which has left; 0: none did
  bool suspected = false;
  std::uint64_t pops = 0;
  std::uint64_t pops_seen = 0;  // at the last tick
  Nanos blocked_since = 0;      // the frame in front has stood there since; 0: none has
  bool aside = false;           // frames that no operation wants are taken out of the way
  bool ended = false;           // its endpoint was seen closed at the last tick
  bool lost = false;
  transport::Armed armed = transport::Armed::kNo;  // as of the last Engine::arm()

 private:
  std::uint64_t pass_ = 0;
  const transport::Frame* front_ = nullptr;
  std::uint64_t refused_pass_ = 0;
  std::size_t refused_bytes_ = 0;
};

// A group of ranks as the engine sees it.
struct Group {
  std::uint32_t id = 0;
  int rank = 0;
  std::vector<Channel*> peers;        // by group rank; null for this rank
  std::vector<int> world_ranks;       // by group rank
  std::uint64_t next_op = 1;          // number of the next operation to begin
  std::shared_ptr<const void> plans;  // owns the programs of its operations
  std::uint64_t admitted_op = 0;      // operations up to this one run or have ended here
  // What the newest operations were, by number modulo the size: for messages about leftovers.
  std::array<transport::Fingerprint, 16> called{};
  Status broken;                 // ok while usable
  std::uint64_t broken_op = 0;   // operations up to this one end with `broken` itself
  std::uint32_t operations = 0;  // running; sends and receives do not count
  std::string last_name;         // of the operation that ended last
  Nanos last_ended = 0;
  transport::Fingerprint disputed{};  // of a peer that called something else
  std::size_t flight = SIZE_MAX;      // the group's entry in the flight record
};

}  // namespace syncline::exec
