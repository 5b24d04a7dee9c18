// LinkEndpoint: the Endpoint over a Link, its TCP rails and the rank's poller.
#pragma once

#include <climits>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/connector.h"
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
  int workers = INT_MAX;  // higher numbers are servers; for messages
  std::uint64_t view = 0;
  std::uint64_t self_incarnation = 0;
  std::uint64_t peer_incarnation = 0;
  // On the side that does not dial: asks the peer's address whether its process is still there. May
  // be empty: a broken link then fails only by silence.
  std::function<std::unique_ptr<Connector>()> probe;
  Nanos silence = 10 * kSecond;
  Nanos suspect = kSecond;
  int rails = 1;
  // New connections can come: by `dial`, or from the peer by attach().
  bool heals = false;
  // On the side that dials: how to reach the peer for a rail; null: there is no way now.
  std::function<std::unique_ptr<Connector>(int rail)> dial;
  std::string congestion_control;               // tcp::pace()
  std::function<void(const std::string&)> log;  // may be empty
  std::function<void()> on_destroy;             // may be empty; called once, at the end
};

// Confined to the baton's holder, as Endpoint says. The poller must outlive it; its descriptors
// stay registered for reading all the time, so that acknowledgements and goodbyes are answered
// whenever the poller runs, and arm() costs no system call.
class LinkEndpoint final : public transport::Endpoint {
 public:
  // `stream`: connected and authenticated, of which nothing was read.
  LinkEndpoint(event::Poller& poller, const Clock& clock, std::unique_ptr<transport::Stream> stream,
               LinkOptions options);
  ~LinkEndpoint() override;

  transport::SendResult try_send(const transport::FrameHeader& header,
                                 const void* payload) override;
  const transport::Frame* front() override;
  void pop() override;
  void progress(Nanos now) override;
  transport::Armed arm() override;
  void disarm() override {}
  Nanos last_heard() const override { return link_.last_heard(); }
  bool has_unsent() const override { return link_.has_unsent(); }
  void close() override;
  Status status() const override { return link_.status(); }
  const char* transport_name() const override { return "tcp"; }
  bool is_far() const override { return far_; }

  // A new connection of the peer for `rail`, authenticated, of which nothing was read.
  void attach(int rail, std::unique_ptr<transport::Stream> stream);
  // The interface under a rail lost its carrier: do not wait for silence.
  void rail_lost(int rail, const std::string& why);
  // Proof from outside that the peer's process is gone, as a clause: "its launcher reports signal
  // 9".
  void report_dead(const std::string& what);

  const Link& link() const { return link_; }

 private:
  struct RailIo {
    transport::tcp::Rail io;
    bool has_header = false;  // of the frame whose first bytes are staged
    bool wants_writable = false;
    std::unique_ptr<Connector> connector;
    Nanos dial_at = 0;  // not before, while other rails carry the frames
    Nanos pause = 0;
  };
  RailIo& at(int rail) { return rails_[static_cast<std::size_t>(rail)]; }

  bool parse_next(int rail);
  bool read_once(int rail);
  bool read_more();
  void read_ahead(int rail);
  void read_ahead();
  bool settle_head();
  void flush(int rail);
  void flush();
  bool has_output() const;
  void on_event(int rail, std::uint32_t events);
  void want_writable(int rail, bool wanted);
  void end(int rail, const transport::IoResult& result);

  // link_endpoint_healing.cc
  void watch(int rail, std::unique_ptr<transport::Stream> stream);
  void unwatch(int rail);
  void act();
  void dial(Nanos now);
  void dial_ended(int rail);
  void check_probe();

  event::Poller& poller_;
  const Clock& clock_;
  const LinkOptions options_;
  Link link_;
  std::vector<RailIo> rails_;
  const bool far_;  // on another host
  LinkQueue queue_;
  ReceivedFrame head_;  // what front() shows: a copy, so that the queue may grow meanwhile
  bool has_head_ = false;
  bool send_blocked_ = false;
  bool yielding_ = false;       // a frame was refused because others wait for the wire
  std::size_t blocked_at_ = 0;  // bytes stored when a send was refused
  bool closure_shown_ = false;
  Nanos now_;  // newest time seen; exact enough for heartbeats
  std::unique_ptr<Connector> prober_;
};

// Takes over `fd`, a connected and authenticated stream socket on which no byte of the frame stream
// has been read. `poller` and `clock` must outlive the endpoint. Fails if `fd` is no socket.
Result<std::unique_ptr<LinkEndpoint>> make_link_endpoint(event::Poller& poller, const Clock& clock,
                                                         int fd, LinkOptions options);

}  // namespace syncline::cluster
