// Connections of simulated ranks: the product's handshake over simulated streams.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <random>

#include "cluster/connector.h"
#include "cluster/handshake.h"
#include "transport/sim/network.h"

namespace syncline::sim {

using transport::sim::Network;

// A handshake that runs over a stream. Confined.
class StreamHandshake {
 public:
  StreamHandshake(std::unique_ptr<transport::Stream> stream, cluster::Handshake core,
                  Nanos deadline)
      : stream_(std::move(stream)), core_(std::move(core)), deadline_(deadline) {}
  void progress(Nanos now);
  bool ended() const { return (core_.done() || core_.failed()) && unsent_.empty(); }
  const cluster::Handshake& core() const { return core_; }
  std::unique_ptr<transport::Stream> take() { return std::move(stream_); }

 private:
  std::unique_ptr<transport::Stream> stream_;
  cluster::Handshake core_;
  Nanos deadline_;
  std::vector<std::byte> unsent_;
};

// Dials as cluster::Dialer does: fresh attempts of 100 ms, a handshake of at most 1 s.
class SimConnector final : public cluster::Connector {
 public:
  SimConnector(Network& network, int host, int peer_host, cluster::HandshakeConfig handshake,
               const cluster::Secret& ephemeral);
  void progress(Nanos now) override;
  bool ended() const override { return ended_; }
  Outcome take() override { return std::move(outcome_); }

 private:
  Network& network_;
  cluster::HandshakeConfig handshake_;
  cluster::Secret ephemeral_;
  std::unique_ptr<Network::Attempt> attempt_;
  std::unique_ptr<StreamHandshake> shaking_;
  Nanos attempt_until_;
  bool ended_ = false;
  Outcome outcome_;
};

// Accepts what reaches a host.
class SimAcceptor {
 public:
  using OnAccept =
      std::function<void(const cluster::PeerIdentity&, std::unique_ptr<transport::Stream>)>;
  SimAcceptor(Network& network, int host, cluster::HandshakeConfig handshake, OnAccept on_accept)
      : network_(network),
        host_(host),
        handshake_(std::move(handshake)),
        on_accept_(std::move(on_accept)) {}
  void progress(Nanos now, std::mt19937_64& random);

 private:
  Network& network_;
  int host_;
  cluster::HandshakeConfig handshake_;
  OnAccept on_accept_;
  std::list<StreamHandshake> half_open_;
};

cluster::Secret secret_from(std::mt19937_64& random);

}  // namespace syncline::sim
