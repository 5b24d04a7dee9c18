// HealingPair: two ranks as threads' sessions over real links, with a proxy between them.
#pragma once

#include <memory>
#include <vector>

#include "cluster/healer.h"
#include "session/session_impl.h"
#include "tests/harness/proxy.h"

namespace syncline::harness {

// Externally synchronised; each session belongs to one thread.
class HealingPair {
 public:
  explicit HealingPair(Nanos silence = 10 * kSecond);
  ~HealingPair();

  Proxy& proxy() { return *proxy_; }
  Session& session(int rank) { return *sessions_[static_cast<std::size_t>(rank)]; }
  // Of rank's link; read it when no call runs.
  const cluster::Link& link(int rank) const {
    return links_[static_cast<std::size_t>(rank)]->link();
  }

 private:
  void build(int rank, transport::tcp::Fd listener, const cluster::View& view, Nanos silence);

  MonotonicClock clock_;
  std::unique_ptr<Proxy> proxy_;
  cluster::LinkEndpoint* links_[2] = {};
  std::unique_ptr<Session> sessions_[2];
};

}  // namespace syncline::harness
