#include "cluster/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace syncline::cluster {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;
using wire::RejectCode;

Secret fresh() {
  Secret secret;
  random_bytes(std::as_writable_bytes(std::span(secret)));
  return secret;
}

JobKey key(unsigned char fill) {
  JobKey::Bytes bytes;
  bytes.fill(fill);
  return JobKey(bytes);
}

HandshakeConfig dialer_config() {
  HandshakeConfig config;
  config.key = key(7);
  config.run_id = "job-1";
  config.rank = 2;
  config.world_size = 4;
  config.incarnation = 222;
  config.view = 1;
  config.job = 99;
  config.rail = 5;
  config.peer_rank = 0;
  config.peer_incarnation = 111;
  config.peer_address = "10.0.0.1:29500";
  return config;
}

HandshakeConfig listener_config() {
  HandshakeConfig config = dialer_config();
  config.rank = 0;
  config.incarnation = 111;
  config.rail = 0;
  config.peer_rank = -1;
  config.peer_incarnation = 0;
  config.peer_address = "10.0.0.9:40000";
  return config;
}

struct Pair {
  Handshake dialer;
  Handshake listener;
};

// Runs both cores; `tamper(direction message number, bytes)` may change what travels.
Pair run(
    const HandshakeConfig& a, const HandshakeConfig& b,
    const std::function<void(int, Bytes&)>& tamper = [](int, Bytes&) {}) {
  Pair pair{Handshake::dialer(a, fresh()), Handshake::listener(b, fresh())};
  for (int message = 0; message < 4; ++message) {
    Handshake& from = message % 2 == 0 ? pair.dialer : pair.listener;
    Handshake& to = message % 2 == 0 ? pair.listener : pair.dialer;
    Bytes bytes = from.take_output();
    tamper(message, bytes);
    to.on_bytes(bytes);
  }
  return pair;
}

TEST(Handshake, BothSidesAgree) {
  const Pair pair = run(dialer_config(), listener_config());
  ASSERT_TRUE(pair.dialer.done()) << pair.dialer.status().to_string();
  ASSERT_TRUE(pair.listener.done()) << pair.listener.status().to_string();
  EXPECT_EQ(pair.dialer.peer().rank, 0);
  EXPECT_EQ(pair.dialer.peer().incarnation, 111u);
  EXPECT_EQ(pair.listener.peer().rank, 2);
  EXPECT_EQ(pair.listener.peer().incarnation, 222u);
  EXPECT_EQ(pair.listener.peer().rail, 5);
  EXPECT_EQ(pair.dialer.keys().send, pair.listener.keys().receive);
  EXPECT_EQ(pair.dialer.keys().receive, pair.listener.keys().send);
  EXPECT_NE(pair.dialer.keys().send, pair.dialer.keys().receive);
}

TEST(Handshake, KeysAreFreshPerConnection) {
  const Pair one = run(dialer_config(), listener_config());
  const Pair two = run(dialer_config(), listener_config());
  EXPECT_NE(one.dialer.keys().send, two.dialer.keys().send);
}

TEST(Handshake, BytesMayArriveOneByOne) {
  Handshake dialer = Handshake::dialer(dialer_config(), fresh());
  Handshake listener = Handshake::listener(listener_config(), fresh());
  for (int message = 0; message < 3; ++message) {
    Handshake& from = message % 2 == 0 ? dialer : listener;
    Handshake& to = message % 2 == 0 ? listener : dialer;
    for (const std::byte b : from.take_output()) to.on_bytes(std::span(&b, 1));
  }
  EXPECT_TRUE(dialer.done());
  EXPECT_TRUE(listener.done());
}

TEST(Handshake, NeverReadsBeyondItsMessages) {
  Handshake listener = Handshake::listener(listener_config(), fresh());
  EXPECT_EQ(listener.wanted(), wire::kHelloBytes);
  Handshake dialer = Handshake::dialer(dialer_config(), fresh());
  listener.on_bytes(dialer.take_output());
  EXPECT_EQ(listener.wanted(), wire::kFinishBytes);
  EXPECT_LE(wire::kHelloBytes, 512u);
}

// With the version bytes changed both sides talk about versions; all others die on a tag or field.
TEST(Handshake, EveryFlippedByteIsRejected) {
  const std::size_t sizes[] = {wire::kHelloBytes, wire::kReplyBytes, wire::kFinishBytes};
  for (int message = 0; message < 3; ++message) {
    for (std::size_t i = 0; i < sizes[message]; ++i) {
      for (const int bit : {0x01, 0x80}) {
        const Pair pair = run(dialer_config(), listener_config(), [&](int number, Bytes& bytes) {
          if (number != message || bytes.size() != sizes[message]) return;
          bytes[i] ^= static_cast<std::byte>(bit);
        });
        EXPECT_FALSE(pair.listener.done()) << "message " << message << " byte " << i;
        if (message < 2) {
          EXPECT_FALSE(pair.dialer.done()) << "message " << message << " byte " << i;
        }
      }
    }
  }
}

// SEC-04
TEST(Handshake, ReplayedMessagesGetNowhere) {
  Bytes hello;
  Bytes finish;
  const Pair honest = run(dialer_config(), listener_config(), [&](int number, Bytes& bytes) {
    if (number == 0) hello = bytes;
    if (number == 2) finish = bytes;
  });
  ASSERT_TRUE(honest.listener.done());
  Handshake listener = Handshake::listener(listener_config(), fresh());
  listener.on_bytes(hello);
  EXPECT_EQ(listener.state(), Handshake::State::kAwaitFinish);
  listener.on_bytes(finish);
  EXPECT_EQ(listener.failure(), Handshake::Failure::kForged);
}

TEST(Handshake, ReflectedMessagesAreRefused) {
  Handshake dialer = Handshake::dialer(dialer_config(), fresh());
  const Bytes hello = dialer.take_output();
  dialer.on_bytes(std::span(hello).first(wire::kReplyBytes));
  EXPECT_EQ(dialer.failure(), Handshake::Failure::kForged);

  // A listener of the same process must not accept its own hello, whoever carries it.
  HandshakeConfig self = listener_config();
  self.rank = 2;
  self.incarnation = 222;
  HandshakeConfig to_self = dialer_config();
  to_self.peer_rank = -1;
  to_self.peer_incarnation = 0;
  const Pair pair = run(to_self, self);
  EXPECT_TRUE(pair.dialer.failed());
  EXPECT_TRUE(pair.listener.failed());
}

TEST(Handshake, LowOrderPointsAreRefused) {
  HandshakeConfig config = dialer_config();
  Handshake dialer = Handshake::dialer(config, fresh());
  Bytes reply(wire::kReplyBytes);
  const auto honest = wire::encode_reply(wire::HandshakeIdentity{}, wire::PublicKey{});
  dialer.on_bytes(honest);
  EXPECT_EQ(dialer.failure(), Handshake::Failure::kForged);
}

void expect_reject(HandshakeConfig a, HandshakeConfig b, RejectCode code, const std::string& text) {
  const Pair pair = run(a, b);
  ASSERT_TRUE(pair.dialer.failed()) << text;
  ASSERT_TRUE(pair.listener.failed()) << text;
  ASSERT_TRUE(pair.dialer.reject().has_value()) << pair.dialer.status().to_string();
  EXPECT_EQ(pair.dialer.reject()->code, code);
  EXPECT_THAT(pair.dialer.status().message(), HasSubstr(text));
  EXPECT_THAT(pair.dialer.status().message(), HasSubstr("rank 0 at 10.0.0.1:29500"));
}

TEST(Handshake, DisagreementsAreNamed) {
  const HandshakeConfig a = dialer_config();
  HandshakeConfig b = listener_config();
  b.key = key(8);
  expect_reject(a, b, RejectCode::kWrongKey, "wrong job key");
  b.key = JobKey();
  expect_reject(a, b, RejectCode::kNoKey, "this side has a job key and the other one has none");
  b = listener_config();
  b.world_size = 8;
  expect_reject(a, b, RejectCode::kWorldSize, "world size 4 here, 8 there");
  b = listener_config();
  b.run_id = "job-2";
  expect_reject(a, b, RejectCode::kRunId, "another job is there (run id 'job-2', here 'job-1')");
  b = listener_config();
  b.rank = 1;
  expect_reject(a, b, RejectCode::kRank, "rank 1 is there");
  b.rank = 2;
  expect_reject(a, b, RejectCode::kRank, "rank 2 is there");
  b = listener_config();
  b.incarnation = 112;
  expect_reject(a, b, RejectCode::kIncarnation, "is gone");
  b = listener_config();
  b.view = 2;
  expect_reject(a, b, RejectCode::kView, "membership view 1 here, 2 there");
  b = listener_config();
  b.job = 100;
  expect_reject(a, b, RejectCode::kView, "membership view");
  b = listener_config();
  b.role = wire::ConnectionRole::kRendezvous;
  expect_reject(a, b, RejectCode::kRole, "another purpose");
  HandshakeConfig keyless = a;
  keyless.key = JobKey();
  expect_reject(keyless, listener_config(), RejectCode::kKeyNeeded, "and this one has none");
}

TEST(Handshake, AnotherVersionIsNamed) {
  const Pair pair = run(dialer_config(), listener_config(), [](int number, Bytes& bytes) {
    if (number == 0) bytes[8] = std::byte{9};  // what a dialer of version 9 sends
    if (number == 1) {
      // What a listener of version 2 answers.
      bytes[8] = std::byte{2};
      bytes[16] = std::byte{2};
    }
  });
  EXPECT_EQ(pair.listener.reject()->code, RejectCode::kVersion);
  EXPECT_THAT(pair.dialer.status().message(), HasSubstr("protocol version 1 here, 2 there"));
}

TEST(Handshake, KeylessWorksOnBothSides) {
  HandshakeConfig a = dialer_config();
  HandshakeConfig b = listener_config();
  a.key = b.key = JobKey();
  const Pair pair = run(a, b);
  EXPECT_TRUE(pair.dialer.done());
  EXPECT_TRUE(pair.listener.done());
}

TEST(Handshake, ProbesNeedNoView) {
  HandshakeConfig a = dialer_config();
  a.role = wire::ConnectionRole::kProbe;
  a.view = 77;
  const Pair pair = run(a, listener_config());
  EXPECT_TRUE(pair.dialer.done()) << pair.dialer.status().to_string();
  ASSERT_TRUE(pair.listener.done());
  EXPECT_EQ(pair.listener.peer().role, wire::ConnectionRole::kProbe);
}

TEST(Handshake, OtherProtectionLevelsAreUnsupported) {
  HandshakeConfig a = dialer_config();
  a.level = wire::DataLevel::kEncrypt;
  Handshake dialer = Handshake::dialer(a, fresh());
  EXPECT_EQ(dialer.status().code(), Code::kUnsupported);
  EXPECT_TRUE(dialer.take_output().empty());
}

TEST(Handshake, OtherProtocolsFailAtTheFirstWrongByte) {
  for (const std::string text : {"GET / HTTP/1.0\r\n\r\n", "\x16\x03\x01", "SSH-2.0-x", "\xff"}) {
    Handshake listener = Handshake::listener(listener_config(), fresh());
    listener.on_bytes(std::as_bytes(std::span(text)));
    EXPECT_EQ(listener.failure(), Handshake::Failure::kNotSyncline) << text;
    EXPECT_TRUE(listener.take_output().empty());
    Handshake dialer = Handshake::dialer(dialer_config(), fresh());
    dialer.on_bytes(std::as_bytes(std::span(text)));
    EXPECT_EQ(dialer.failure(), Handshake::Failure::kNotSyncline) << text;
    EXPECT_THAT(dialer.status().message(), HasSubstr("not a syncline endpoint at 10.0.0.1:29500"));
  }
}

TEST(Handshake, EndAndSilenceAreReported) {
  Handshake dialer = Handshake::dialer(dialer_config(), fresh());
  dialer.on_eof();
  EXPECT_EQ(dialer.status().code(), Code::kLinkDown);
  Handshake silent = Handshake::dialer(dialer_config(), fresh());
  silent.on_deadline();
  EXPECT_EQ(silent.status().code(), Code::kTimeout);
  EXPECT_THAT(silent.status().message(), HasSubstr("not a syncline endpoint at 10.0.0.1:29500"));
}

TEST(Handshake, RandomBytesAfterTheMagicNeverAuthenticate) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    Handshake listener = Handshake::listener(listener_config(), fresh());
    Bytes bytes(wire::kHelloBytes);
    for (auto& b : bytes) b = static_cast<std::byte>(random());
    std::copy_n(std::as_bytes(std::span(wire::kHandshakeMagic)).begin(), 8, bytes.begin());
    if (round % 2 == 0) {
      bytes[8] = std::byte{1};
      bytes[9] = std::byte{0};
      bytes[10] = std::byte{1};
    }
    listener.on_bytes(bytes);
    EXPECT_TRUE(listener.failed());
  }
}

TEST(Crypto, KnownAnswers) {
  // RFC 4231 case 2 and RFC 5869 case 3 (its first 32 bytes), RFC 7748 section 6.1.
  const auto hex = [](std::span<const unsigned char> bytes) {
    std::string text;
    char two[3];
    for (const unsigned char b : bytes) {
      std::snprintf(two, sizeof two, "%02x", b);
      text += two;
    }
    return text;
  };
  const std::string data = "what do ya want for nothing?";
  EXPECT_EQ(hex(hmac_sha256(part(std::string_view("Jefe")), {part(data)})),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  const std::string input(22, '\x0b');
  EXPECT_EQ(hex(hkdf_expand(hkdf_extract({}, part(input)), "", {})),
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d");
  Secret alice;
  const unsigned char bytes[32] = {0x77, 0x07, 0x6d, 0x0a, 0x73, 0x18, 0xa5, 0x7d, 0x3c, 0x16, 0xc1,
                                   0x72, 0x51, 0xb2, 0x66, 0x45, 0xdf, 0x4c, 0x2f, 0x87, 0xeb, 0xc0,
                                   0x99, 0x2a, 0xb1, 0x77, 0xfb, 0xa5, 0x1d, 0xb9, 0x2c, 0x2a};
  std::copy_n(bytes, 32, alice.begin());
  EXPECT_EQ(hex(x25519_public(alice)),
            "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
}

}  // namespace
}  // namespace syncline::cluster
