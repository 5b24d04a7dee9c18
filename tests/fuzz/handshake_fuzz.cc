// The handshake of both sides against whatever comes, in pieces of any size. A side without the
// peer's key is never convinced.
#include <algorithm>
#include <cstring>

#include "cluster/handshake.h"
#include "tests/fuzz/fuzz_target.h"

using namespace syncline;
using cluster::Handshake;

namespace {

cluster::HandshakeConfig config_of(int rank, std::uint8_t key) {
  cluster::HandshakeConfig config;
  cluster::JobKey::Bytes bytes{};
  bytes.fill(key);
  config.key = cluster::JobKey(bytes);
  config.rank = rank;
  config.peer_rank = 1 - rank;
  config.world_size = 2;
  config.incarnation = 7;
  return config;
}

cluster::Secret ephemeral(unsigned char fill) {
  cluster::Secret secret{};
  std::memset(secret.data(), fill, secret.size());
  return secret;
}

// Feeds pieces whose lengths the input gives; returns what was used.
void feed(Handshake& side, const std::uint8_t* data, std::size_t size) {
  while (size > 0 && !side.done() && !side.failed()) {
    const std::size_t piece = std::min<std::size_t>({1 + data[0] % 97u, size, side.wanted()});
    side.on_bytes(fuzz::bytes_of(data, piece));
    data += piece;
    size -= piece;
  }
  if (!side.done() && !side.failed()) side.on_eof();
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  // A real hello whose byte at a position of the input's choice is changed, then the input.
  static const std::vector<std::byte> hello =
      Handshake::dialer(config_of(1, 5), ephemeral(9)).take_output();
  const bool keyless = (data[0] & 1) != 0;
  const std::uint8_t own_key = keyless ? 0 : 5;
  Handshake listener = Handshake::listener(config_of(0, own_key), ephemeral(3));
  if ((data[0] & 2) != 0 && size > 2) {
    std::vector<std::byte> damaged = hello;
    damaged[data[1]] ^= static_cast<std::byte>(data[2]);
    listener.on_bytes(damaged);
    if (data[2] != 0 && !keyless) fuzz::require(listener.failed(), "a damaged hello is refused");
    size -= 2;
    data += 2;
  }
  feed(listener, data + 1, size - 1);
  fuzz::require(listener.failed() || keyless, "nobody without the key gets in");
  Handshake dialer = Handshake::dialer(config_of(1, own_key), ephemeral(9));
  feed(dialer, data + 1, size - 1);
  fuzz::require(dialer.failed() || keyless, "a dialer believes nobody without the key");
  return 0;
}
