// LinkEndpoint: new connections for rails that ended, and whether the peer is still there.
#include <sys/epoll.h>

#include <cerrno>

#include "cluster/link_endpoint.h"

namespace syncline::cluster {

void LinkEndpoint::watch(int rail, std::unique_ptr<transport::Stream> stream) {
  unwatch(rail);
  RailIo& to = at(rail);
  to.io.open(std::move(stream));
  if (to.io.fd() < 0) return;
  poller_.add(to.io.fd(), EPOLLIN, [this, rail](std::uint32_t events) { on_event(rail, events); });
}

void LinkEndpoint::unwatch(int rail) {
  RailIo& each = at(rail);
  if (!each.io.is_open()) return;
  if (each.io.fd() >= 0) poller_.remove(each.io.fd());
  each.io.close();
  each.has_header = each.wants_writable = false;
}

void LinkEndpoint::attach(int rail, std::unique_ptr<transport::Stream> stream) {
  if (rail < 0 || rail >= options_.rails || link_.state() == Link::State::kClosed) return;
  read_ahead(rail);  // what the old connection brought need not come again
  act();
  now_ = clock_.now();
  link_.on_connected(rail, now_);
  (void)link_.take_actions();  // the old connection is replaced here, not closed
  watch(rail, std::move(stream));
  at(rail).connector.reset();
  flush(rail);
  act();
}

void LinkEndpoint::rail_lost(int rail, const std::string& why) {
  if (!options_.heals) return;
  link_.on_end(why, now_, rail);
  act();
  flush();
}

// Carries out what the link asks for. Only here a connection is closed, never inside a read.
void LinkEndpoint::act() {
  while (link_.has_actions()) {
    const LinkActions actions = link_.take_actions();
    if (!actions.log.empty() && options_.log) options_.log(actions.log);
    for (int rail = 0; rail < options_.rails; ++rail) {
      if ((actions.disconnect >> rail & 1) != 0) unwatch(rail);
    }
    if (actions.probe) start_probe();
  }
}

// The side that dials does not probe: its attempts say as much.
void LinkEndpoint::dial(Nanos now) {
  for (int rail = 0; rail < options_.rails; ++rail) {
    std::unique_ptr<Connector>& connector = at(rail).connector;
    if (!link_.wants_connection(rail, now)) {
      connector.reset();
      continue;
    }
    if (connector == nullptr) connector = options_.dial(rail);
    if (connector == nullptr) continue;  // no way there now
    connector->progress(now);
    if (connector->ended()) dial_ended(rail);
  }
}

void LinkEndpoint::dial_ended(int rail) {
  const std::unique_ptr<Connector> connector = std::move(at(rail).connector);
  Connector::Outcome outcome = connector->take();
  if (outcome.stream != nullptr) return attach(rail, std::move(outcome.stream));
  link_.on_probe(outcome.verdict, now_);
}

void LinkEndpoint::start_probe() {
  drop_probe();
  if (options_.dial) return;
  if (options_.probe) {
    prober_ = options_.probe();
    return;
  }
  if (options_.peer_address.length() == 0) return;
  transport::tcp::Connecting attempt = transport::tcp::start_connect(options_.peer_address);
  if (attempt.error != 0) {
    const bool refused = attempt.error == ECONNREFUSED;
    return link_.on_probe(refused ? ProbeResult::kRefused : ProbeResult::kNoAnswer, now_);
  }
  probe_ = std::move(attempt.fd);
  poller_.add(probe_.get(), EPOLLOUT, [this](std::uint32_t) {
    check_probe();
    act();
  });
  check_probe();
}

void LinkEndpoint::check_probe() {
  if (prober_ != nullptr) {
    prober_->progress(now_);
    if (!prober_->ended()) return;
    const std::unique_ptr<Connector> ended = std::move(prober_);
    return link_.on_probe(ended->take().verdict, now_);
  }
  const int error = transport::tcp::connect_error(probe_.get());
  if (error == EINPROGRESS) return;
  drop_probe();
  if (error == 0) return link_.on_probe(ProbeResult::kAnswered, now_);
  link_.on_probe(error == ECONNREFUSED ? ProbeResult::kRefused : ProbeResult::kNoAnswer, now_);
}

void LinkEndpoint::drop_probe() {
  prober_.reset();
  if (!probe_.valid()) return;
  poller_.remove(probe_.get());
  probe_.reset();
}

}  // namespace syncline::cluster
