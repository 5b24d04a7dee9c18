// The few primitives of the handshake, from OpenSSL 3. A failure inside OpenSSL is a bug or
// exhaustion of ours and asserts; only x25519() can fail on what a peer sent.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

namespace syncline::cluster {

using Digest = std::array<unsigned char, 32>;
using Secret = std::array<unsigned char, 32>;
using Part = std::span<const std::byte>;

template <class Range>
Part part(const Range& range) {
  return std::as_bytes(std::span(range.data(), range.size()));
}

// Of the concatenation of the parts.
Digest sha256(std::initializer_list<Part> parts);
Digest hmac_sha256(Part key, std::initializer_list<Part> parts);

// RFC 5869 with SHA-256; expand gives one block of 32 bytes.
Secret hkdf_extract(Part salt, Part input);
Secret hkdf_expand(const Secret& key, std::string_view label, Part context);

Secret x25519_public(const Secret& secret);
// False when the shared secret would be zero: the peer sent a point of low order.
bool x25519(const Secret& secret, const Secret& peer_public, Secret& shared);

bool equal_constant_time(Part a, Part b);
void random_bytes(std::span<std::byte> out);
void wipe(Secret& secret);

}  // namespace syncline::cluster
