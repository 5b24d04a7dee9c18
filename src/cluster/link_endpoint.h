// LinkEndpoint: the Endpoint over a Link, a TCP rail and the rank's poller.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/link.h"
#include "cluster/link_queue.h"
#include "event/poller.h"
#include "transport/endpoint.h"
#include "transport/tcp/rail.h"

namespace syncline::cluster {

struct LinkOptions {
  int self_rank = 0;
  int peer_rank = 0;
  std::string peer_host;  // for messages
  std::uint64_t view = 0;
  std::uint64_t self_incarnation = 0;
  std::uint64_t peer_incarnation = 0;
  // Where the peer's process listens for connections of ranks: refused there means that it is dead.
  // Empty (length() == 0): never probed, so that a broken link fails only by silence.
  transport::tcp::Address peer_address;
  Nanos silence = 10 * kSecond;
  Nanos suspect = kSecond;
  std::function<void(const std::string&)> log;  // may be empty
};

// Confined to the baton's holder, as Endpoint says. The poller must outlive it; its descriptors
// stay registered for reading all the time, so that acknowledgements and goodbyes are answered
// whenever the poller runs, and arm() costs no system call.
class LinkEndpoint final : public transport::Endpoint {
 public:
  LinkEndpoint(event::Poller& poller, const Clock& clock, transport::tcp::Fd fd,
               LinkOptions options);
  ~LinkEndpoint() override;

  transport::SendResult try_send(const transport::FrameHeader& header,
                                 const void* payload) override;
  const transport::Frame* front() override;
  void pop() override;
  void progress(Nanos now) override;
  bool arm() override;
  void disarm() override {}
  Nanos last_heard() const override { return link_.last_heard(); }
  bool has_unsent() const override { return link_.has_unsent(); }
  void close() override;
  Status status() const override { return link_.status(); }
  const char* transport_name() const override { return "tcp"; }

  // Proof from outside that the peer's process is gone, as a clause: "its launcher reports signal
  // 9".
  void report_dead(const std::string& what);

 private:
  bool parse_next();
  bool read_once();
  void read_ahead();
  bool settle_head();
  void flush();
  void on_event(std::uint32_t events);
  void want_writable(bool wanted);
  void end(const transport::tcp::IoResult& result);
  void act();
  void start_probe();
  void check_probe();
  void drop_probe();

  event::Poller& poller_;
  const Clock& clock_;
  const LinkOptions options_;
  Link link_;
  transport::tcp::Rail rail_;
  LinkQueue queue_;
  ReceivedFrame head_;  // what front() shows: a copy, so that the queue may grow meanwhile
  bool has_head_ = false;
  bool has_header_ = false;  // of the frame whose first bytes are staged
  bool wants_writable_ = false;
  bool send_blocked_ = false;
  std::size_t blocked_at_ = 0;  // bytes stored when a send was refused
  bool closure_shown_ = false;
  Nanos now_;  // newest time seen; exact enough for heartbeats
  transport::tcp::Fd probe_;
};

// Takes over `fd`, a connected and authenticated stream socket on which no byte of the frame stream
// has been read. `poller` and `clock` must outlive the endpoint. Fails if `fd` is no socket.
Result<std::unique_ptr<transport::Endpoint>> make_link_endpoint(event::Poller& poller,
                                                                const Clock& clock, int fd,
                                                                LinkOptions options);

}  // namespace syncline::cluster
