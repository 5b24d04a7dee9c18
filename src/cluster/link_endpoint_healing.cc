// LinkEndpoint: new connections for rails that ended, and whether the peer is still there.
#include <sys/epoll.h>

#include <algorithm>

#include "cluster/link_endpoint.h"

namespace syncline::cluster {
namespace {

// Between attempts to bring back a rail that others stand in for.
constexpr Nanos kSparePauseMin = 50 * kMillisecond;
constexpr Nanos kSparePauseMax = kSecond;

}  // namespace

void LinkEndpoint::watch(int rail, std::unique_ptr<transport::Stream> stream) {
  unwatch(rail);
  RailIo& to = at(rail);
  to.io.open(std::move(stream));
  if (to.io.fd() < 0) return;
  if (far_) transport::tcp::keep_little_unsent(to.io.fd());
  transport::tcp::pace(to.io.fd(), options_.congestion_control);
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
  if (link_.state() == Link::State::kClosed) return;
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
    if (actions.probe && options_.probe && prober_ == nullptr) prober_ = options_.probe();
  }
}

// The side that dials does not probe: its attempts say as much.
void LinkEndpoint::dial(Nanos now) {
  for (int rail = 0; rail < options_.rails; ++rail) {
    std::unique_ptr<Connector>& connector = at(rail).connector;
    if (!link_.wants_connection(rail, now)) {
      connector.reset();
      at(rail).pause = 0;
      continue;
    }
    const bool spare = link_.another_is_alive(rail, now);
    if (connector == nullptr && (!spare || now >= at(rail).dial_at))
      connector = options_.dial(rail);
    if (connector == nullptr) continue;  // no way there now
    connector->progress(now);
    if (connector->ended()) dial_ended(rail);
  }
}

void LinkEndpoint::dial_ended(int rail) {
  const std::unique_ptr<Connector> connector = std::move(at(rail).connector);
  Connector::Outcome outcome = connector->take();
  if (outcome.stream != nullptr) return attach(rail, std::move(outcome.stream));
  RailIo& each = at(rail);
  each.pause = std::clamp(2 * each.pause, kSparePauseMin, kSparePauseMax);
  each.dial_at = now_ + each.pause;
  link_.on_probe(outcome.verdict, now_);
}

void LinkEndpoint::check_probe() {
  prober_->progress(now_);
  if (!prober_->ended()) return;
  const std::unique_ptr<Connector> ended = std::move(prober_);
  link_.on_probe(ended->take().verdict, now_);
}

}  // namespace syncline::cluster
