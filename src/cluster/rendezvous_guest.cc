#include "cluster/rendezvous_guest.h"

#include "base/assert.h"
#include "base/planted.h"

namespace syncline::cluster {
namespace {

constexpr Nanos kDialAgainPause = 50 * kMillisecond;

// The listener is a Syncline process, but not the one that was looked for.
bool is_other_process(const std::optional<wire::Reject>& reject) {
  if (!reject) return false;
  switch (reject->code) {
    case wire::RejectCode::kRunId:
    case wire::RejectCode::kRank:
    case wire::RejectCode::kIncarnation:
    case wire::RejectCode::kRole:
    case wire::RejectCode::kView:
      return true;
    default:
      return false;
  }
}

}  // namespace

DialOptions rendezvous_dial(const RendezvousConfig& config, const Member& self, Nanos deadline) {
  DialOptions options;
  options.insecure = config.insecure;
  options.deadline = deadline;
  options.outside = config.outside;
  HandshakeConfig& handshake = options.handshake;
  handshake.key = config.key;
  handshake.run_id = config.run_id;
  handshake.role = wire::ConnectionRole::kRendezvous;
  handshake.rank = self.rank;
  handshake.world_size = config.world_size;
  handshake.servers = config.servers;
  handshake.incarnation = self.incarnation;
  handshake.peer_rank = 0;
  return options;
}

RendezvousGuest::RendezvousGuest(event::Poller& poller, const Clock& clock, DialOptions options,
                                 std::string where, Nanos limit, Complete complete)
    : poller_(poller),
      clock_(clock),
      options_(options),
      rank_(options.handshake.rank),
      name_(options.handshake.name_of(rank_)),
      world_size_(options.handshake.world_size),
      incarnation_(options.handshake.incarnation),
      deadline_(options.deadline),
      where_(std::move(where)),
      limit_(limit),
      complete_(std::move(complete)) {
  dialer_ = std::make_unique<Dialer>(poller, clock, std::move(options));
}

Result<View> RendezvousGuest::take() {
  SYNCLINE_ASSERT(ended(), "ask ended() first");
  return std::move(*result_);
}

void RendezvousGuest::end(Result<View> result) {
  result_ = std::move(result);
  channel_.reset();
  dialer_.reset();
}

void RendezvousGuest::progress(Nanos now) {
  if (ended()) return;
  if (dialer_) {
    dialer_->progress(now);
    last_dial_error_ = dialer_->last_error();
    if (dialer_->ended()) on_dialed(dialer_->take());
    return;
  }
  if (!channel_) {
    if (now >= dial_again_at_) dial_again();
    return;
  }
  channel_->progress();
  while (!ended()) {
    const auto message = channel_->receive();
    if (!message) break;
    on_message(*message);
  }
  if (ended()) return;
  if (!channel_->status().ok()) return on_broken(now);
  if (now >= deadline_) expire();
}

Status RendezvousGuest::left_by_host(const Status& why) const {
  return Status(Code::kPeerLost, "rank 0 left the rendezvous at " + where_)
      .with_peer(0)
      .caused_by(why);
}

// After the table rank 0 does not wait for anyone to come back.
void RendezvousGuest::on_broken(Nanos now) {
  const bool final = view_ || now >= deadline_ || SYNCLINE_PLANTED(break_is_final);
  if (final) return end(left_by_host(channel_->status()));
  const AuthenticatedSocket& socket = channel_->socket();
  std::erase_if(options_.addresses, [&](const transport::tcp::Address& each) {
    return each.to_string() != socket.peer_address;
  });
  options_.handshake.peer_incarnation = socket.peer_incarnation;
  options_.refused_is_final = true;  // it has listened
  channel_.reset();
  dial_again_at_ = now + kDialAgainPause;
}

void RendezvousGuest::dial_again() {
  dialer_ = std::make_unique<Dialer>(poller_, clock_, options_);
}

void RendezvousGuest::on_dialed(Result<AuthenticatedSocket> socket) {
  if (!socket.ok() && member_ && socket.status().code() != Code::kTimeout) {
    return end(left_by_host(socket.status()));
  }
  if (!socket.ok()) {
    met_somebody_else_ = dialer_->not_syncline() || is_other_process(dialer_->reject());
    return end(socket.status());
  }
  dialer_.reset();
  if (!member_) {
    auto member = complete_(socket.value().local);
    if (!member.ok()) return end(member.status());
    member_ = std::move(member).value();
  }
  channel_ = std::make_unique<ControlChannel>(poller_, std::move(socket).value(),
                                              wire::table_bytes_max(world_size_));
  channel_->send(wire::encode_join(*member_));
}

void RendezvousGuest::on_message(const std::vector<std::byte>& message) {
  const auto type = wire::membership_type(message);
  if (!type.ok()) return end(type.status().with_peer(0));
  switch (type.value()) {
    case wire::MembershipType::kWaiting: {
      const auto text = wire::decode_waiting(message);
      if (text.ok()) missing_ = text.value();
      return;
    }
    case wire::MembershipType::kTable:
      return on_table(message);
    case wire::MembershipType::kStart:
      if (!view_) break;
      return end(std::move(*view_));
    case wire::MembershipType::kRefuse: {
      const auto refusal = wire::decode_refuse(message);
      if (!refusal.ok()) break;
      return end(Status(refusal.value().code,
                        "rank 0 at " + where_ + " ends the rendezvous: " + refusal.value().text)
                     .with_peer(refusal.value().peer));
    }
    default:
      break;
  }
  end(Status(Code::kCorrupt, "unexpected message from rank 0 at " + where_).with_peer(0));
}

void RendezvousGuest::on_table(const std::vector<std::byte>& message) {
  auto view = wire::decode_table(message);
  if (!view.ok()) return end(view.status().with_peer(0));
  const auto& members = view.value().members;
  bool good = static_cast<int>(members.size()) == world_size_ && view.value().view > 0;
  for (std::size_t i = 0; i < members.size(); ++i)
    good = good && members[i].rank == static_cast<int>(i);
  good = good && members[static_cast<std::size_t>(rank_)].incarnation == incarnation_;
  if (!good)
    return end(Status(Code::kCorrupt, "rank 0 sent a table that does not fit").with_peer(0));
  view_ = std::move(view).value();
  channel_->send(wire::encode_plain(wire::MembershipType::kAck));
}

std::string RendezvousGuest::waiting_for() const {
  if (dialer_) {
    const std::string last =
        dialer_->last_error().ok() ? "" : " (" + dialer_->last_error().message() + ")";
    return name_ + " waits for rank 0 at " + where_ + last;
  }
  return name_ + " has joined at " + where_ + " and waits for " +
         (missing_.empty() ? std::string("the others") : missing_);
}

void RendezvousGuest::expire() {
  end(Status(Code::kTimeout, (missing_.empty() ? "the other ranks" : missing_) +
                                 " did not arrive at " + where_ + " within " + limit_text(limit_)));
}

}  // namespace syncline::cluster
