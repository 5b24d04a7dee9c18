#include "cluster/handshake.h"

#include <algorithm>
#include <cstring>

#include "base/planted.h"

namespace syncline::cluster {
namespace {

using wire::Reject;
using wire::RejectCode;

constexpr std::string_view kSalt = "syncline-handshake-1";
constexpr int kServersShift = 16;
constexpr std::uint64_t kProcessesMask = 0xffff;

template <class Message>
Part body(const Message& message) {
  return part(message).first(message.size() - wire::kTagBytes);
}

template <class Message>
Part tag(const Message& message) {
  return part(message).last(wire::kTagBytes);
}

template <class Message>
void set_tag(Message& message, const Digest& digest) {
  std::memcpy(message.data() + message.size() - wire::kTagBytes, digest.data(), digest.size());
}

std::string both(const std::string& what, std::uint64_t here, std::uint64_t there) {
  return what + " " + std::to_string(here) + " here, " + std::to_string(there) + " there";
}

// A job's servers are told apart from its ranks, or two processes could count the same number of
// processes and mean different ones.
std::uint32_t wire_world_size(const HandshakeConfig& config) {
  return static_cast<std::uint32_t>(config.world_size) | static_cast<std::uint32_t>(config.servers)
                                                             << kServersShift;
}

std::string size_text(std::uint64_t wire_size, bool with_servers) {
  const std::uint64_t servers = wire_size >> kServersShift & kProcessesMask;
  const std::string ranks = std::to_string((wire_size & kProcessesMask) - servers);
  return with_servers ? ranks + " with " + std::to_string(servers) + " servers" : ranks;
}

std::string explain_size(const HandshakeConfig& here, std::uint64_t there) {
  const std::uint64_t ours = wire_world_size(here);
  const bool servers = ((ours | there) >> kServersShift) != 0;
  return "world size " + size_text(ours, servers) + " here, " + size_text(there, servers) +
         " there" + (servers ? "; give all processes the same SYNCLINE_SERVERS" : "");
}

std::string run_name(const std::string& id) { return id.empty() ? "none" : "'" + id + "'"; }

Code code_of(RejectCode code) {
  switch (code) {
    case RejectCode::kBusy:
      return Code::kExhausted;
    case RejectCode::kLevel:
      return Code::kUnsupported;
    case RejectCode::kWrongKey:
    case RejectCode::kKeyNeeded:
    case RejectCode::kNoKey:
      return Code::kFailedPrecondition;
    default:
      return Code::kMismatch;
  }
}

}  // namespace

SessionKeys::~SessionKeys() {
  wipe(send);
  wipe(receive);
}

std::string explain(const Reject& reject, const HandshakeConfig& here) {
  switch (reject.code) {
    case RejectCode::kVersion:
      return both("protocol version", wire::kHandshakeVersion, reject.number) +
             "; run the same release of Syncline on both hosts";
    case RejectCode::kWrongKey:
      return "wrong job key: this rank's key is not the other's; give all ranks the same key file";
    case RejectCode::kKeyNeeded:
      return "the other side has a job key and this one has none; give all ranks the same key file "
             "(SYNCLINE_KEY_FILE)";
    case RejectCode::kNoKey:
      return "this side has a job key and the other one has none; give all ranks the same key file "
             "(SYNCLINE_KEY_FILE)";
    case RejectCode::kRunId:
      return "another job is there (run id " + run_name(reject.text) + ", here " +
             run_name(wire::wire_run_id(here.run_id)) + ")";
    case RejectCode::kWorldSize:
      return explain_size(here, reject.number);
    case RejectCode::kRank:
      return here.name_of(static_cast<int>(static_cast<std::int64_t>(reject.number))) +
             " is there, which does not fit " + here.name_of(here.rank) + " looking for " +
             here.name_of(here.peer_rank);
    case RejectCode::kIncarnation:
      return "the process looked for is gone; another one has its address";
    case RejectCode::kView:
      return both("membership view", here.view, reject.number);
    case RejectCode::kRole:
      return "the listener there serves another purpose (rendezvous or data)";
    case RejectCode::kLevel:
      return both("data protection level", static_cast<std::uint64_t>(here.level), reject.number);
    case RejectCode::kBusy:
      return "too many unfinished connections there; try again";
    case RejectCode::kMalformed:
      break;
  }
  return "the other side could not read the hello";
}

Handshake::Handshake(HandshakeConfig config, const Secret& ephemeral, State state)
    : config_(std::move(config)), ephemeral_(ephemeral), state_(state) {
  early_ = hkdf_extract(part(kSalt), part(config_.key.bytes()));
  input_.reserve(wire::kHelloBytes);
}

Handshake::~Handshake() {
  wipe(ephemeral_);
  wipe(early_);
  wipe(master_);
}

Handshake Handshake::dialer(HandshakeConfig config, const Secret& ephemeral) {
  Handshake handshake(std::move(config), ephemeral, State::kAwaitReply);
  if (handshake.config_.level != wire::DataLevel::kHandshake) {
    handshake.fail(Failure::kUnsupported,
                   Status(Code::kUnsupported,
                          "data protection 'mac' and 'encrypt' are not built yet; "
                          "use 'handshake' on a trusted network"));
  } else {
    handshake.send_hello();
  }
  return handshake;
}

Handshake Handshake::listener(HandshakeConfig config, const Secret& ephemeral) {
  return Handshake(std::move(config), ephemeral, State::kAwaitHello);
}

std::string Handshake::who() const {
  const std::string rank =
      config_.peer_rank >= 0 ? config_.name_of(config_.peer_rank) + " at " : "";
  return rank + (config_.peer_address.empty() ? "a peer" : config_.peer_address);
}

wire::HandshakeIdentity Handshake::identity(int peer_rank, std::uint64_t peer_incarnation) const {
  wire::HandshakeIdentity id;
  id.flags = config_.key.absent() ? wire::kFlagKeyless : 0;
  id.role = config_.role;
  id.level = config_.level;
  id.rail = config_.rail;
  id.rank = config_.rank;
  id.peer_rank = peer_rank;
  id.world_size = wire_world_size(config_);
  id.incarnation = config_.incarnation;
  id.peer_incarnation = peer_incarnation;
  id.view = config_.view;
  id.job = config_.job;
  return id;
}

void Handshake::send_hello() {
  hello_ = wire::encode_hello(identity(config_.peer_rank, config_.peer_incarnation),
                              wire::wire_run_id(config_.run_id), x25519_public(ephemeral_));
  const Secret key = hkdf_expand(early_, "hello", {});
  set_tag(hello_, hmac_sha256(part(key), {body(hello_)}));
  output_.assign(hello_.begin(), hello_.end());
}

std::size_t Handshake::wanted() const {
  switch (state_) {
    case State::kAwaitHello:
      return wire::kHelloBytes - input_.size();
    case State::kAwaitReply:
      return wire::kReplyBytes - input_.size();
    case State::kAwaitFinish:
      return wire::kFinishBytes - input_.size();
    default:
      return 0;
  }
}

void Handshake::on_bytes(std::span<const std::byte> bytes) {
  bytes = bytes.first(std::min(bytes.size(), wanted()));
  if (bytes.empty()) return;
  input_.insert(input_.end(), bytes.begin(), bytes.end());
  if (!wire::may_be_handshake(input_)) return not_syncline();
  if (wanted() > 0) return;
  switch (state_) {
    case State::kAwaitHello:
      std::copy(input_.begin(), input_.end(), hello_.begin());
      input_.clear();
      return on_hello();
    case State::kAwaitReply:
      std::copy(input_.begin(), input_.end(), reply_.begin());
      input_.clear();
      return on_reply();
    default:
      return on_finish();
  }
}

void Handshake::on_hello() {
  if (wire::version_of(hello_) != wire::kHandshakeVersion) {
    return refuse({RejectCode::kVersion, wire::kHandshakeVersion, ""});
  }
  const auto hello = wire::decode_hello(hello_);
  if (!hello) return refuse({RejectCode::kMalformed, 0, ""});
  if (const auto reject = judge(*hello)) return refuse(*reject);
  peer_ = {hello->identity.rank, hello->identity.incarnation, hello->identity.rail,
           hello->identity.role};
  send_reply(*hello);
}

std::optional<Reject> Handshake::judge(const wire::Hello& hello) const {
  const bool keyless = (hello.identity.flags & wire::kFlagKeyless) != 0;
  if (keyless && !config_.key.absent()) return Reject{RejectCode::kKeyNeeded, 0, ""};
  if (!keyless && config_.key.absent()) return Reject{RejectCode::kNoKey, 0, ""};
  const Secret key = hkdf_expand(early_, "hello", {});
  const Digest expected = hmac_sha256(part(key), {body(hello_)});
  if (!equal_constant_time(part(expected), tag(hello_)))
    return Reject{RejectCode::kWrongKey, 0, ""};
  return judge_identity(hello);
}

std::optional<Reject> Handshake::judge_identity(const wire::Hello& hello) const {
  const auto& id = hello.identity;
  const std::string run_id = wire::wire_run_id(config_.run_id);
  if (hello.run_id != run_id && !SYNCLINE_PLANTED(run_ids_ignored))
    return Reject{RejectCode::kRunId, 0, run_id};
  const bool this_process = id.peer_incarnation == 0 || id.peer_incarnation == config_.incarnation;
  if (!this_process || id.incarnation == config_.incarnation) {
    return Reject{RejectCode::kIncarnation, 0, ""};
  }
  const std::uint32_t world_size = wire_world_size(config_);
  if (id.world_size != world_size) return Reject{RejectCode::kWorldSize, world_size, ""};
  const bool me_wanted = id.peer_rank == config_.rank || id.peer_rank == -1;
  const bool rank_possible =
      id.rank >= 0 && id.rank < config_.world_size && id.rank != config_.rank;
  if (!me_wanted || !rank_possible) {
    return Reject{RejectCode::kRank, static_cast<std::uint64_t>(config_.rank), ""};
  }
  const bool probe = id.role == wire::ConnectionRole::kProbe;
  const bool heal =
      id.role == wire::ConnectionRole::kHeal && config_.role == wire::ConnectionRole::kData;
  if (id.role != config_.role && !probe && !heal) return Reject{RejectCode::kRole, 0, ""};
  if (!probe && (id.view != config_.view || id.job != config_.job)) {
    return Reject{RejectCode::kView, config_.view, ""};
  }
  if (id.level != config_.level) {
    return Reject{RejectCode::kLevel, static_cast<std::uint64_t>(config_.level), ""};
  }
  if (heal && config_.heals_later) return Reject{RejectCode::kBusy, 0, ""};
  return std::nullopt;
}

// Master key: both ephemerals, the job key. The tag proves it over the whole transcript.
void Handshake::send_reply(const wire::Hello& hello) {
  Secret shared;
  if (!x25519(ephemeral_, hello.ephemeral, shared)) return refuse({RejectCode::kMalformed, 0, ""});
  const wire::PublicKey own = x25519_public(ephemeral_);
  derive(shared);
  wire::HandshakeIdentity id = identity(hello.identity.rank, hello.identity.incarnation);
  id.role = hello.identity.role;
  id.rail = hello.identity.rail;
  reply_ = wire::encode_reply(id, own);
  const Digest transcript = sha256({part(hello_), body(reply_)});
  const Secret key = hkdf_expand(master_, "reply", part(transcript));
  set_tag(reply_, hmac_sha256(part(key), {part(transcript)}));
  output_.insert(output_.end(), reply_.begin(), reply_.end());
  state_ = State::kAwaitFinish;
}

void Handshake::derive(const Secret& shared) {
  master_ = hkdf_extract(part(early_), part(shared));
  wipe(ephemeral_);
}

bool Handshake::reply_fits(const wire::Reply& reply) const {
  const auto& id = reply.identity;
  wire::HandshakeIdentity expected = identity(config_.rank, config_.incarnation);
  expected.rank = config_.peer_rank == -1 ? id.rank : config_.peer_rank;
  expected.incarnation = config_.peer_incarnation == 0 ? id.incarnation : config_.peer_incarnation;
  if (config_.role == wire::ConnectionRole::kProbe) {
    expected.view = id.view;
    expected.job = id.job;
  }
  return id == expected && id.incarnation != config_.incarnation && id.rank != config_.rank;
}

void Handshake::on_reply() {
  if (const auto reject = wire::decode_reject(reply_)) {
    reject_ = reject;
    return fail(
        Failure::kRejected,
        Status(code_of(reject->code), who() + " refused this rank: " + explain(*reject, config_)));
  }
  const auto reply = wire::decode_reply(reply_);
  Secret shared;
  if (!reply || !x25519(ephemeral_, reply->ephemeral, shared)) {
    return fail(Failure::kForged,
                Status(Code::kCorrupt, "malformed handshake reply from " + who()));
  }
  derive(shared);
  Digest transcript = sha256({part(hello_), body(reply_)});
  const Secret reply_key = hkdf_expand(master_, "reply", part(transcript));
  if (!equal_constant_time(part(hmac_sha256(part(reply_key), {part(transcript)})), tag(reply_))) {
    return fail(
        Failure::kForged,
        Status(Code::kCorrupt, who() + " does not prove the job key: its key is another one, or "
                                       "bytes were changed on the way"));
  }
  if (!reply_fits(*reply)) {
    return fail(Failure::kForged,
                Status(Code::kCorrupt, who() + " is another rank than it should be"));
  }
  peer_ = {reply->identity.rank, reply->identity.incarnation, reply->identity.rail, config_.role};
  wire::FinishBytes finish = wire::encode_finish();
  transcript = sha256({part(hello_), part(reply_), body(finish)});
  const Secret finish_key = hkdf_expand(master_, "finish", part(transcript));
  set_tag(finish, hmac_sha256(part(finish_key), {part(transcript)}));
  output_.insert(output_.end(), finish.begin(), finish.end());
  keys_.send = hkdf_expand(master_, "dialer to listener", part(transcript));
  keys_.receive = hkdf_expand(master_, "listener to dialer", part(transcript));
  state_ = State::kDone;
}

void Handshake::on_finish() {
  wire::FinishBytes finish;
  std::copy(input_.begin(), input_.end(), finish.begin());
  input_.clear();
  const Digest transcript = sha256({part(hello_), part(reply_), body(finish)});
  const Secret key = hkdf_expand(master_, "finish", part(transcript));
  const Digest expected = hmac_sha256(part(key), {part(transcript)});
  if (!wire::decode_finish(finish) || !equal_constant_time(part(expected), tag(finish))) {
    return fail(Failure::kForged,
                Status(Code::kCorrupt,
                       who() + " does not finish the handshake: replayed or changed bytes"));
  }
  keys_.send = hkdf_expand(master_, "listener to dialer", part(transcript));
  keys_.receive = hkdf_expand(master_, "dialer to listener", part(transcript));
  state_ = State::kDone;
}

void Handshake::on_eof() {
  if (failed()) return;
  fail(Failure::kClosed,
       Status(Code::kLinkDown, who() + " closed the connection during the handshake"));
}

void Handshake::on_deadline() {
  if (failed()) return;
  fail(Failure::kDeadline,
       Status(Code::kTimeout, "not a syncline endpoint at " + config_.peer_address +
                                  ", or a stopped process: " + who() +
                                  " accepted the connection but did not answer the handshake"));
}

void Handshake::refuse(const Reject& reject) {
  reject_ = reject;
  const auto bytes = wire::encode_reject(reject.code, reject.number, reject.text);
  output_.insert(output_.end(), bytes.begin(), bytes.end());
  // Seen from this side "here" is what the dialer calls "there": say what was wrong in neutral
  // words.
  std::string why = "rejected the hello of " + who();
  if (reject.code == RejectCode::kWrongKey)
    why += ": wrong job key";
  else if (reject.code == RejectCode::kVersion)
    why += ": it speaks another protocol version";
  else if (reject.code == RejectCode::kKeyNeeded)
    why += ": it has no job key";
  else if (reject.code == RejectCode::kNoKey)
    why += ": it has a job key, this job has none";
  else if (reject.code == RejectCode::kRunId)
    why += ": it belongs to another job";
  else if (reject.code == RejectCode::kWorldSize)
    why += ": its world size differs";
  else if (reject.code == RejectCode::kIncarnation)
    why += ": it looks for another process";
  else
    why += " (reason " + std::to_string(static_cast<int>(reject.code)) + ")";
  fail(Failure::kRefused, Status(code_of(reject.code), std::move(why)));
}

void Handshake::fail(Failure failure, Status status) {
  failure_ = failure;
  status_ = std::move(status);
  state_ = State::kFailed;
}

void Handshake::not_syncline() {
  const std::string text = state_ == State::kAwaitReply
                               ? "not a syncline endpoint at " + config_.peer_address +
                                     ": another program has this port; choose another port"
                               : who() + " is no syncline rank: it speaks another protocol";
  fail(Failure::kNotSyncline, Status(Code::kMismatch, text));
}

std::vector<std::byte> Handshake::take_output() { return std::exchange(output_, {}); }

}  // namespace syncline::cluster
