// Handshake: two ranks prove the job's key to each other and agree on who they are, before anything
// they send is believed. Sans I/O. Bytes and key schedule: docs/formats/handshake.md.
//
//   dialer   --- hello  (identity, ephemeral key, tag of the job key) --->   listener
//            <-- reply  (identity, ephemeral key, tag of both keys) ------
//            --- finish (tag of both keys) ------------------------------>
//
// After the pattern NNpsk0 of the Noise framework (X25519 + pre-shared key; HKDF, HMAC-SHA-256).
// Every byte of every message is under a tag, the tags bind all earlier messages, keys are fresh
// per connection (forward secrecy), and the directions use different labels (a reflected message
// proves nothing). The dialer may send right after its finish: 1.5 round trips for the listener, 1
// for the dialer.
//
// States: dialer kAwaitReply -> kDone | kFailed; listener kAwaitHello -> kAwaitFinish -> kDone |
// kFailed. A replayed hello gets a reply and stops there: its sender cannot finish.
//
// Memory before trust: this object, no allocation from anything a peer said.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cluster/crypto.h"
#include "cluster/key.h"
#include "cluster/process_name.h"
#include "syncline/status.h"
#include "wire/handshake_messages.h"

namespace syncline::cluster {

inline constexpr Nanos kHandshakeLimit = 2 * kSecond;  // of a half-open connection

// What this side is and whom it accepts.
struct HandshakeConfig {
  JobKey key;  // absent(): keyless, both sides must be
  std::string run_id;
  wire::ConnectionRole role = wire::ConnectionRole::kData;
  wire::DataLevel level = wire::DataLevel::kHandshake;  // others are unsupported yet
  std::uint16_t rail = 0;                               // dialer's choice, the listener learns it
  int rank = 0;
  int world_size = 1;  // of all processes, servers too
  int servers = 0;     // the last of them
  std::uint64_t incarnation = 0;
  std::uint64_t view = 0;
  std::uint64_t job = 0;
  // Listener only: has no link yet that a heal connection could belong to; answers "busy".
  bool heals_later = false;
  // Dialer only: whom it wants.
  int peer_rank = -1;
  std::uint64_t peer_incarnation = 0;  // 0: any
  std::string peer_address;            // "10.0.0.1:29500", for messages

  // "rank 3" or "server 1".
  std::string name_of(int number) const {
    return process_name(number, servers == 0 ? INT_MAX : world_size - servers);
  }
};

// What the other side proved to be.
struct PeerIdentity {
  int rank = -1;
  std::uint64_t incarnation = 0;
  std::uint16_t rail = 0;
  wire::ConnectionRole role = wire::ConnectionRole::kData;
};

// Secrets of one connection, for what follows on it.
struct SessionKeys {
  Secret send{};
  Secret receive{};
  ~SessionKeys();
};

// Confined.
class Handshake {
 public:
  enum class State : std::uint8_t { kAwaitHello, kAwaitReply, kAwaitFinish, kDone, kFailed };
  enum class Failure : std::uint8_t {
    kNone,
    kNotSyncline,  // the first bytes are of another protocol
    kRejected,     // the listener said why; see reject()
    kRefused,      // listener: it told the dialer why; see reject()
    kForged,       // a tag or a field does not fit
    kClosed,       // the connection ended
    kDeadline,
    kUnsupported,
  };

  // `ephemeral`: 32 fresh random bytes, never used before.
  static Handshake dialer(HandshakeConfig config, const Secret& ephemeral);
  static Handshake listener(HandshakeConfig config, const Secret& ephemeral);
  ~Handshake();
  Handshake(Handshake&&) = default;
  Handshake(const Handshake&) = delete;

  // Read at most this many bytes from the connection: what follows the handshake stays in the
  // socket.
  std::size_t wanted() const;
  // At most wanted() bytes. Fails at the first byte that no Syncline sends.
  void on_bytes(std::span<const std::byte> bytes);
  // Also of a dialer that is done but could not write its finish.
  void on_eof();
  void on_deadline();
  // To be written, also when failed (the reason for the peer). Empty after the call.
  std::vector<std::byte> take_output();

  State state() const { return state_; }
  bool done() const { return state_ == State::kDone; }
  bool failed() const { return state_ == State::kFailed; }
  Failure failure() const { return failure_; }
  std::optional<wire::Reject> reject() const { return reject_; }
  const Status& status() const { return status_; }    // why failed
  const PeerIdentity& peer() const { return peer_; }  // once done
  const SessionKeys& keys() const { return keys_; }   // once done

 private:
  Handshake(HandshakeConfig config, const Secret& ephemeral, State state);
  wire::HandshakeIdentity identity(int peer_rank, std::uint64_t peer_incarnation) const;
  void send_hello();
  void on_hello();
  std::optional<wire::Reject> judge(const wire::Hello& hello) const;
  std::optional<wire::Reject> judge_identity(const wire::Hello& hello) const;
  void send_reply(const wire::Hello& hello);
  void on_reply();
  bool reply_fits(const wire::Reply& reply) const;
  void on_finish();
  void derive(const Secret& shared);
  void finish_keys();
  void refuse(const wire::Reject& reject);
  void fail(Failure failure, Status status);
  void not_syncline();
  std::string who() const;

  HandshakeConfig config_;
  Secret ephemeral_;
  State state_;
  Failure failure_ = Failure::kNone;
  Status status_;
  std::optional<wire::Reject> reject_;
  std::vector<std::byte> input_;  // of the message that is being read, at most kHelloBytes
  std::vector<std::byte> output_;
  wire::HelloBytes hello_{};  // the transcript
  wire::ReplyBytes reply_{};
  Secret early_{};   // from the job key alone
  Secret master_{};  // from the job key and both ephemerals
  PeerIdentity peer_;
  SessionKeys keys_;
};

// One line about a rejection: "protocol version 1 here, 2 there".
std::string explain(const wire::Reject& reject, const HandshakeConfig& here);

}  // namespace syncline::cluster
