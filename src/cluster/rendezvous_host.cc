#include "cluster/rendezvous_host.h"

#include <algorithm>
#include <climits>

#include "base/assert.h"
#include "base/planted.h"
#include "cluster/process_name.h"
#include "cluster/processes.h"

namespace syncline::cluster {
namespace {

// Joining takes one member; a table goes the other way.
constexpr std::size_t kGuestMessageBytesMax = 8 * 1024;

std::string describe(const Member& member) {
  return "pid " + std::to_string(member.pid) + " on " + member.host_name;
}

bool only_loopback(const Member& member) {
  return std::all_of(member.addresses.begin(), member.addresses.end(), [](const std::string& text) {
    const auto where = transport::tcp::parse_host_port(text);
    if (!where.ok()) return true;
    const auto address = transport::tcp::parse_literal(where.value().host, where.value().port);
    return !address.ok() || address.value().is_loopback() || address.value().is_any();
  });
}

}  // namespace

RendezvousHost::RendezvousHost(event::Poller& poller, const Clock& clock,
                               std::vector<std::unique_ptr<transport::Listener>> listeners,
                               const RendezvousConfig& config, Member self, Nanos deadline)
    : poller_(poller), clock_(clock), config_(config), self_(std::move(self)), deadline_(deadline) {
  for (auto& listener : listeners) {
    AcceptorOptions options;
    options.handshake = handshake(config);
    options.insecure = config.insecure;
    options.name = "rendezvous";
    options.log = config.log;
    options.outside = config.outside;
    acceptors_.push_back(std::make_unique<Acceptor>(
        poller, clock, std::move(listener), std::move(options),
        [this](AuthenticatedSocket socket) { on_accept(std::move(socket)); }));
  }
}

HandshakeConfig RendezvousHost::handshake(const RendezvousConfig& config) const {
  HandshakeConfig out;
  out.key = config.key;
  out.run_id = config.run_id;
  out.role = wire::ConnectionRole::kRendezvous;
  out.rank = 0;
  out.world_size = config.world_size;
  out.servers = config.servers;
  out.incarnation = self_.incarnation;
  return out;
}

Result<View> RendezvousHost::take() {
  SYNCLINE_ASSERT(ended(), "ask ended() first");
  return std::move(*result_);
}

void RendezvousHost::on_accept(AuthenticatedSocket socket) {
  auto guest = std::make_unique<Guest>();
  guest->join_until = clock_.now() + kJoinLimit;
  guest->channel =
      std::make_unique<ControlChannel>(poller_, std::move(socket), kGuestMessageBytesMax);
  guests_.push_back(std::move(guest));
}

RendezvousHost::Guest* RendezvousHost::guest_of(int rank) {
  for (auto& guest : guests_) {
    if (guest->member && guest->member->rank == rank && !guest->leaving) return guest.get();
  }
  return nullptr;
}

void RendezvousHost::progress(Nanos now) {
  for (auto& acceptor : acceptors_) acceptor->progress(now);
  for (std::size_t i = 0; i < guests_.size(); ++i) serve(*guests_[i], now);
  drop_gone(now);
  if (!result_ && !view_) try_table(now);
  if (!result_ && view_) try_start();
  if (!result_ && now >= deadline_ && !SYNCLINE_PLANTED(rendezvous_without_end)) expire();
  if (!result_) return tell_waiting(now);
  if (decided_at_ == 0) decided_at_ = now;
  ended_ = flushed() || now - decided_at_ >= kSecond;
}

void RendezvousHost::serve(Guest& guest, Nanos now) {
  guest.channel->progress();
  while (const auto message = guest.channel->receive()) {
    if (!guest.leaving) on_message(guest, *message, now);
  }
  if (!guest.member && !guest.leaving && now >= guest.join_until) {
    refuse(guest, Code::kTimeout, "no join message came");
  }
}

void RendezvousHost::on_message(Guest& guest, const std::vector<std::byte>& message, Nanos now) {
  const auto type = wire::membership_type(message);
  if (type.ok() && type.value() == wire::MembershipType::kJoin && !guest.member) {
    auto member = wire::decode_join(message);
    if (!member.ok()) return refuse(guest, Code::kCorrupt, member.status().message());
    return on_join(guest, std::move(member).value(), now);
  }
  if (type.ok() && type.value() == wire::MembershipType::kAck && view_) {
    guest.acknowledged = true;
    return;
  }
  refuse(guest, Code::kCorrupt, "unexpected message");
}

void RendezvousHost::on_join(Guest& guest, Member member, Nanos) {
  const AuthenticatedSocket& socket = guest.channel->socket();
  if (member.rank != socket.peer_rank || member.incarnation != socket.peer_incarnation) {
    return refuse(guest, Code::kMismatch, "the join message is of another rank than the handshake");
  }
  if (view_ || result_) {
    return refuse(guest, Code::kMismatch,
                  "too late: the job has started with " + std::to_string(config_.world_size) +
                      (config_.servers == 0 ? " ranks" : " processes") + advice_if_unnamed());
  }
  if (!settle_duplicate(guest, member)) return;
  guest.member = std::move(member);
}

// Of two processes that claim a rank, the one of this job is closer.
int RendezvousHost::closeness(const Member& member) const {
  if (member.host_id != self_.host_id) return 0;
  if (member.launcher_pid == self_.launcher_pid) return INT_MAX;
  return common_ancestors(member.pid, self_.pid);
}

// False: `guest` was refused.
bool RendezvousHost::settle_duplicate(Guest& guest, const Member& member) {
  Guest* earlier = guest_of(member.rank);
  if (earlier == nullptr || SYNCLINE_PLANTED(twin_accepted)) return true;
  const bool same_process = earlier->member->incarnation == member.incarnation;
  const bool named = !config_.run_id.empty();
  const int ahead = named ? 0 : closeness(member) - closeness(*earlier->member);
  const std::string rank = process_name(config_, member.rank);
  const std::string why = rank + " is there already (";
  const std::string advice =
      "); give each job its own SYNCLINE_RUN_ID or address, and each process its own rank";
  if (same_process) {
    earlier->leaving = true;  // its connection broke, and it has a new one
    return true;
  }
  if (ahead > 0) {
    refuse(*earlier, Code::kMismatch, why + describe(member) + advice);
    return true;
  }
  if (!named && ahead == 0) {
    fail(Status(Code::kMismatch, rank + " is there twice and nothing tells whose it is (" +
                                     describe(*earlier->member) + "; " + describe(member) + advice)
             .with_peer(member.rank));
    return false;
  }
  refuse(guest, Code::kMismatch, why + describe(*earlier->member) + advice);
  return false;
}

void RendezvousHost::refuse(Guest& guest, Code code, const std::string& why) {
  guest.channel->send(wire::encode_refuse({code, guest.channel->socket().peer_rank, why}));
  guest.leaving = true;
  const AuthenticatedSocket& socket = guest.channel->socket();
  acceptors_.front()->note_refusal(socket, why);
}

void RendezvousHost::drop_gone(Nanos) {
  std::optional<Status> lost;
  const auto gone = [&](const std::unique_ptr<Guest>& guest) {
    if (guest->leaving && !guest->channel->has_unsent()) return true;
    if (guest->channel->status().ok()) return false;
    if (SYNCLINE_PLANTED(stale_member_kept) && guest->member && !guest->leaving) return false;
    if (guest->member && !guest->leaving) {
      log_to(config_.log, process_name(config_, guest->member->rank) + " (" +
                              describe(*guest->member) +
                              ") left the rendezvous: " + guest->channel->status().message());
      if (view_ && !result_) {
        lost =
            Status(Code::kPeerLost, process_name(config_, guest->member->rank) + " (" +
                                        describe(*guest->member) + ") left while the job started")
                .with_peer(guest->member->rank);
      }
    }
    return true;
  };
  guests_.erase(std::remove_if(guests_.begin(), guests_.end(), gone), guests_.end());
  if (lost) fail(*lost);
}

const Member* RendezvousHost::possible_stranger() const {
  if (!config_.run_id.empty()) return nullptr;
  for (const auto& guest : guests_) {
    if (guest->member && !guest->leaving && guest->member->host_id == self_.host_id &&
        guest->member->launcher_pid != self_.launcher_pid) {
      return &*guest->member;
    }
  }
  return nullptr;
}

void RendezvousHost::try_table(Nanos now) {
  View view;
  view.view = 1;
  view.members.push_back(self_);
  for (int rank = 1; rank < config_.world_size; ++rank) {
    const Guest* guest = guest_of(rank);
    if (guest == nullptr && SYNCLINE_PLANTED(table_too_early) && !guests_.empty()) continue;
    if (guest == nullptr) {
      complete_since_ = 0;
      return;
    }
    view.members.push_back(*guest->member);
  }
  const Member* stranger = possible_stranger();
  if (complete_since_ == 0) {
    complete_since_ = now;
    if (stranger != nullptr) {
      log_to(config_.log,
             process_name(config_, stranger->rank) + " (" + describe(*stranger) +
                 ") was started by another process than rank 0 and there is no run id: "
                 "waiting 2 s for one that was not; set SYNCLINE_RUN_ID to save this");
    }
  }
  if (stranger != nullptr && now - complete_since_ < kSettle) return;
  if (const Status status = check_addresses(view); !status.ok()) return fail(status);
  view.job = config_.outside.fresh_incarnation();
  send_table(std::move(view));
}

Status RendezvousHost::check_addresses(const View& view) const {
  for (const Member& each : view.members) {
    const bool remote =
        std::any_of(view.members.begin(), view.members.end(),
                    [&](const Member& other) { return other.host_id != each.host_id; });
    if (remote && only_loopback(each)) {
      return Status(Code::kInvalidArgument,
                    process_name(config_, each.rank) + " on " + each.host_name +
                        " offers only a loopback address, which ranks of other hosts cannot reach; "
                        "name "
                        "the interface with --ifname (SYNCLINE_IFNAME) or use a rendezvous address "
                        "that other hosts reach")
          .with_peer(each.rank);
    }
  }
  return {};
}

void RendezvousHost::send_table(View view) {
  const auto table = wire::encode_table(view);
  view_ = std::move(view);
  for (auto& guest : guests_) {
    if (!guest->member) {
      refuse(*guest, Code::kMismatch, "too late: the job has started" + advice_if_unnamed());
    } else if (!guest->leaving) {
      guest->channel->send(table);
    }
  }
}

void RendezvousHost::try_start() {
  for (const auto& guest : guests_) {
    if (SYNCLINE_PLANTED(start_too_early)) break;
    if (guest->member && !guest->leaving && !guest->acknowledged) return;
  }
  for (auto& guest : guests_) {
    if (guest->acknowledged || SYNCLINE_PLANTED(start_too_early))
      guest->channel->send(wire::encode_plain(wire::MembershipType::kStart));
  }
  result_ = *view_;
}

void RendezvousHost::fail(const Status& status) {
  if (result_) return;
  for (auto& guest : guests_) {
    if (guest->leaving) continue;
    guest->channel->send(wire::encode_refuse({status.code(), status.peer(), status.message()}));
    guest->leaving = true;
  }
  result_ = status;
}

void RendezvousHost::expire() {
  fail(Status(Code::kTimeout,
              missing() + (view_ ? " did not confirm the table at " : " did not arrive at ") +
                  config_.uri + " within " + limit_text(config_.timeout) + advice_if_unnamed()));
}

// Where no run id keeps jobs apart, who is missing may have gone to another job's rank 0.
std::string RendezvousHost::advice_if_unnamed() const {
  if (!config_.run_id.empty()) return "";
  return "; if another job meets here too, give each its own SYNCLINE_RUN_ID";
}

std::string RendezvousHost::missing() const {
  const int workers = config_.world_size - config_.servers;
  const std::string ranks = missing_among(0, workers, "rank");
  const std::string servers = missing_among(workers, config_.world_size, "server");
  return ranks + (ranks.empty() || servers.empty() ? "" : " and ") + servers;
}

// Numbers [begin, end), which count from 0 within their role.
std::string RendezvousHost::missing_among(int begin, int end, const std::string& role) const {
  std::string list;
  int count = 0;
  for (int number = std::max(begin, 1); number < end; ++number) {
    const Guest* guest = const_cast<RendezvousHost*>(this)->guest_of(number);
    if (guest != nullptr && (!view_ || guest->acknowledged)) continue;
    if (++count <= 20) list += (list.empty() ? "" : ", ") + std::to_string(number - begin);
  }
  if (count == 0) return "";
  if (count > 20) list += " and " + std::to_string(count - 20) + " more";
  return role + (count == 1 ? " " : "s ") + list + " of " + std::to_string(end - begin);
}

// Guests learn who is missing, so that their messages can say it too.
void RendezvousHost::tell_waiting(Nanos now) {
  if (view_ || result_ || now - told_at_ < kSecond) return;
  told_at_ = now;
  const std::string text = missing();
  for (auto& guest : guests_) {
    if (guest->member && !guest->leaving && text != told_) {
      guest->channel->send(wire::encode_waiting(text));
    }
  }
  told_ = text;
}

bool RendezvousHost::flushed() const {
  return std::none_of(guests_.begin(), guests_.end(), [](const std::unique_ptr<Guest>& guest) {
    return guest->channel->status().ok() && guest->channel->has_unsent();
  });
}

}  // namespace syncline::cluster
