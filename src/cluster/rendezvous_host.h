// RendezvousHost: rank 0's side. Gathers one member for each rank, sends all of them the table, and
// ends when everyone has it.
//
// States: gathering -> confirming -> ended. A guest that leaves while gathering is awaited again;
// one that leaves while confirming fails the job. A rank that is there twice: the second is
// refused, except that without a run id the one whose process is closer to rank 0's is preferred
// (two jobs of one host that were given the same address), and the job fails when neither is:
// better none than one of ranks of two. While a guest of this host has another parent than rank 0,
// the table waits kSettle for a better one.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/acceptor.h"
#include "cluster/control_channel.h"
#include "cluster/rendezvous.h"

namespace syncline::cluster {

// Confined to its poller.
class RendezvousHost {
 public:
  static constexpr Nanos kSettle = 2 * kSecond;
  static constexpr Nanos kJoinLimit = 5 * kSecond;  // from the handshake to the join message

  // Gives up at `deadline`, on the clock.
  RendezvousHost(event::Poller& poller, const Clock& clock,
                 std::vector<std::unique_ptr<transport::Listener>> listeners,
                 const RendezvousConfig& config, Member self, Nanos deadline);

  // Call after every poll and at least every 100 ms.
  void progress(Nanos now);
  // The outcome is known and everyone was told; a guest that does not read is waited for 1 s.
  bool ended() const { return ended_; }
  bool decided() const { return result_.has_value(); }
  // Nobody was sent the table yet: a rank that restarts is welcome.
  bool gathering() const { return !view_ && !result_; }
  Result<View> take();
  // Tells all guests and ends with this error.
  void fail(const Status& status);
  // Whose join or, after the table, whose ack is awaited: "ranks 2, 3 of 4 and server 0 of 2".
  std::string missing() const;

 private:
  struct Guest {
    std::unique_ptr<ControlChannel> channel;
    Nanos join_until = 0;
    std::optional<Member> member;  // once joined
    bool acknowledged = false;
    bool leaving = false;  // refused: dropped once flushed
  };
  HandshakeConfig handshake(const RendezvousConfig& config) const;
  void on_accept(AuthenticatedSocket socket);
  void serve(Guest& guest, Nanos now);
  void on_message(Guest& guest, const std::vector<std::byte>& message, Nanos now);
  void on_join(Guest& guest, Member member, Nanos now);
  bool settle_duplicate(Guest& guest, const Member& member);
  int closeness(const Member& member) const;
  void refuse(Guest& guest, Code code, const std::string& why);
  void drop_gone(Nanos now);
  void try_table(Nanos now);
  const Member* possible_stranger() const;
  Status check_addresses(const View& view) const;
  void send_table(View view);
  void try_start();
  std::string missing_among(int begin, int end, const std::string& role) const;
  void tell_waiting(Nanos now);
  std::string advice_if_unnamed() const;
  void expire();
  bool flushed() const;
  Guest* guest_of(int rank);

  event::Poller& poller_;
  const Clock& clock_;
  RendezvousConfig config_;
  Member self_;
  Nanos deadline_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  std::vector<std::unique_ptr<Guest>> guests_;
  std::optional<View> view_;  // once sent
  std::optional<Result<View>> result_;
  Nanos decided_at_ = 0;
  bool ended_ = false;
  Nanos complete_since_ = 0;  // all there since; 0: somebody is missing
  Nanos told_at_ = 0;
  std::string told_;
};

}  // namespace syncline::cluster
