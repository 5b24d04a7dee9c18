// RendezvousGuest: the side of ranks 1 and up. Dials rank 0, joins, waits for the table.
//
// States: dialing -> joining (has sent its member) -> confirming (has sent its ack) -> ended. A
// connection that breaks while joining is made again, with the same rank 0.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cluster/control_channel.h"
#include "cluster/dialer.h"
#include "cluster/rendezvous.h"

namespace syncline::cluster {

// Confined to its poller.
class RendezvousGuest {
 public:
  // Completes this rank's Member once the way to rank 0 is known: opens the data listener on it.
  using Complete = std::function<Result<Member>(const transport::tcp::Address& local)>;

  // `options`: see rendezvous_dial(). `where`, "tcp://a:1", and `limit`: for messages.
  RendezvousGuest(event::Poller& poller, const Clock& clock, DialOptions options, std::string where,
                  Nanos limit, Complete complete);

  // Call after every poll and at least every 100 ms.
  void progress(Nanos now);
  bool ended() const { return result_.has_value(); }
  Result<View> take();

  // For the caller that decides whether an address is stale: what the failed dial met.
  bool dialing() const { return dialer_ != nullptr; }
  bool has_table() const { return view_.has_value(); }
  bool met_somebody_else() const { return met_somebody_else_; }
  const Status& last_dial_error() const { return last_dial_error_; }
  // One line about what it waits for.
  std::string waiting_for() const;

 private:
  void on_dialed(Result<AuthenticatedSocket> socket);
  void on_broken(Nanos now);
  void dial_again();
  Status left_by_host(const Status& why) const;
  void on_message(const std::vector<std::byte>& message);
  void on_table(const std::vector<std::byte>& message);
  void expire();
  void end(Result<View> result);

  event::Poller& poller_;
  const Clock& clock_;
  DialOptions options_;
  int rank_;
  std::string name_;
  int world_size_;
  std::uint64_t incarnation_;
  Nanos deadline_;
  std::string where_;
  Nanos limit_;
  Complete complete_;
  std::unique_ptr<Dialer> dialer_;
  std::unique_ptr<ControlChannel> channel_;
  std::optional<Member> member_;  // since the first join
  Nanos dial_again_at_ = 0;
  std::string missing_;  // rank 0's latest word
  std::optional<View> view_;
  Status last_dial_error_;
  bool met_somebody_else_ = false;
  std::optional<Result<View>> result_;
};

// How `self` dials rank 0, except for the addresses.
DialOptions rendezvous_dial(const RendezvousConfig& config, const Member& self, Nanos deadline);

}  // namespace syncline::cluster
