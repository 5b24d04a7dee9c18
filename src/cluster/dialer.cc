#include "cluster/dialer.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.h"

namespace syncline::cluster {
namespace {

constexpr Nanos kFirstBackoff = 10 * kMillisecond;
constexpr Nanos kBackoffMax = 200 * kMillisecond;
constexpr Nanos kConnectLimit = kSecond;
constexpr Nanos kConnectLimitOfSeveral = 300 * kMillisecond;

bool may_pass(const Handshake& core) {
  switch (core.failure()) {
    case Handshake::Failure::kClosed:
    case Handshake::Failure::kDeadline:
      return true;
    case Handshake::Failure::kRejected:
      return core.reject()->code == wire::RejectCode::kBusy;
    default:
      return false;
  }
}

}  // namespace

Dialer::Dialer(event::Poller& poller, const Clock& clock, DialOptions options)
    : poller_(poller), options_(std::move(options)), backoff_(kFirstBackoff), watch_(poller) {
  SYNCLINE_ASSERT(!options_.addresses.empty(), "a dialer needs an address");
  start_attempt(clock.now());
}

void Dialer::drop_attempt() {
  watch_.stop();
  connecting_.reset();
}

Result<AuthenticatedSocket> Dialer::take() {
  SYNCLINE_ASSERT(ended(), "ask ended() first");
  return std::move(*result_);
}

void Dialer::start_attempt(Nanos now) {
  const bool trusted_path =
      !options_.handshake.key.absent() || options_.insecure || target().is_loopback();
  if (!trusted_path) {
    result_ = missing_key_error(options_.handshake.name_of(options_.handshake.peer_rank) + " at " +
                                target().to_string() + " is on another host");
    return;
  }
  connecting_ = options_.outside.connect(target(), options_.from);
  const Nanos usual = options_.addresses.size() > 1 ? kConnectLimitOfSeveral : kConnectLimit;
  attempt_until_ = now + (options_.connect_limit > 0 ? options_.connect_limit : usual);
  if (connecting_->fd() < 0) return check_connected(now);  // failed at once, or simulated
  watch_.start(connecting_->fd(), EPOLLOUT, [this](std::uint32_t) { watch_.stop(); });
}

void Dialer::progress(Nanos now) {
  if (ended()) return;
  if (handshaking_) {
    check_handshake(now);
  } else if (connecting_) {
    check_connected(now);
  } else if (now >= retry_at_) {
    start_attempt(now);
  }
  if (!ended() && now >= options_.deadline) expire();
}

void Dialer::check_connected(Nanos now) {
  const int error = connecting_->error();
  if (error == 0) return on_connected(now);
  if (error != EINPROGRESS) return connect_failed(now, error);
  if (now >= attempt_until_) {
    attempt_failed(now,
                   Status(Code::kTimeout, target().to_string() + ": no answer to the connection"));
  }
}

void Dialer::on_connected(Nanos now) {
  watch_.stop();
  HandshakeConfig config = options_.handshake;
  config.peer_address = target().to_string();
  Secret ephemeral = options_.outside.fresh_secret();
  local_ = connecting_->local();
  handshaking_ = std::make_unique<HandshakeSocket>(
      poller_, connecting_->take(), Handshake::dialer(std::move(config), ephemeral),
      std::min(now + kHandshakeLimit, options_.deadline));
  connecting_.reset();
  wipe(ephemeral);
}

void Dialer::check_handshake(Nanos now) {
  handshaking_->progress(now);
  if (!handshaking_->ended()) return;
  const Handshake& core = handshaking_->core();
  if (core.done()) {
    result_ = handshaking_->take(target().to_string());
    result_->value().local = local_;
  } else {
    reject_ = core.reject();
    not_syncline_ = core.failure() == Handshake::Failure::kNotSyncline;
    const Status why = core.status();
    if (may_pass(core)) {
      attempt_failed(now, why);
    } else {
      last_error_ = why;
      result_ = why.with_peer(options_.handshake.peer_rank);
    }
  }
  handshaking_.reset();
}

void Dialer::connect_failed(Nanos now, int error) {
  const std::string where = target().to_string();
  if (error == ECONNREFUSED && options_.refused_is_final && options_.addresses.size() == 1) {
    drop_attempt();
    result_ = Status(Code::kPeerLost, where + " refuses connections: the process is gone")
                  .with_peer(options_.handshake.peer_rank);
    return;
  }
  attempt_failed(now, Status(Code::kLinkDown, where + ": " + std::strerror(error)));
}

// The next address at once, the first one again after a pause.
void Dialer::attempt_failed(Nanos now, const Status& why) {
  last_error_ = why;
  drop_attempt();
  next_ = (next_ + 1) % options_.addresses.size();
  retry_at_ = now;
  if (next_ != 0) return;
  retry_at_ = now + backoff_;
  backoff_ = std::min(2 * backoff_, options_.backoff_max > 0 ? options_.backoff_max : kBackoffMax);
}

void Dialer::expire() {
  std::string where;
  for (const auto& address : options_.addresses) {
    where += (where.empty() ? "" : ", ") + address.to_string();
  }
  const std::string last = last_error_.ok() ? "no answer" : last_error_.message();
  drop_attempt();
  handshaking_.reset();
  result_ = Status(Code::kTimeout, options_.handshake.name_of(options_.handshake.peer_rank) +
                                       " cannot be reached at " + where +
                                       " in time; last reason: " + last)
                .with_peer(options_.handshake.peer_rank);
}

}  // namespace syncline::cluster
