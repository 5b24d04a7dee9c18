#include "cluster/crypto.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <memory>

#include "base/assert.h"

namespace syncline::cluster {
namespace {

struct Free {
  void operator()(EVP_MD_CTX* p) const { EVP_MD_CTX_free(p); }
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
  void operator()(EVP_PKEY_CTX* p) const { EVP_PKEY_CTX_free(p); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

constexpr std::size_t kBlock = 64;  // of SHA-256

const unsigned char* raw(Part bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

Owned<EVP_PKEY> private_key(const Secret& secret) {
  Owned<EVP_PKEY> key(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, secret.data(), secret.size()));
  SYNCLINE_ASSERT(key != nullptr, "OpenSSL has X25519");
  return key;
}

}  // namespace

Digest sha256(std::initializer_list<Part> parts) {
  Owned<EVP_MD_CTX> context(EVP_MD_CTX_new());
  SYNCLINE_ASSERT(
      context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1,
      "OpenSSL has SHA-256");
  for (const Part bytes : parts) {
    SYNCLINE_ASSERT(EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()) == 1,
                    "hashing memory cannot fail");
  }
  Digest digest;
  SYNCLINE_ASSERT(EVP_DigestFinal_ex(context.get(), digest.data(), nullptr) == 1,
                  "hashing memory cannot fail");
  return digest;
}

// RFC 2104: H(key ^ opad, H(key ^ ipad, text)).
Digest hmac_sha256(Part key, std::initializer_list<Part> parts) {
  SYNCLINE_ASSERT(key.size() <= kBlock, "keys are at most one block");
  std::array<unsigned char, kBlock> inner_pad;
  std::array<unsigned char, kBlock> outer_pad;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const unsigned char byte = i < key.size() ? raw(key)[i] : 0;
    inner_pad[i] = byte ^ 0x36;
    outer_pad[i] = byte ^ 0x5c;
  }
  Owned<EVP_MD_CTX> context(EVP_MD_CTX_new());
  bool good = context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1 &&
              EVP_DigestUpdate(context.get(), inner_pad.data(), kBlock) == 1;
  for (const Part bytes : parts) {
    good = good && EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()) == 1;
  }
  Digest inner;
  good = good && EVP_DigestFinal_ex(context.get(), inner.data(), nullptr) == 1;
  SYNCLINE_ASSERT(good, "hashing memory cannot fail");
  OPENSSL_cleanse(inner_pad.data(), kBlock);
  const Digest digest = sha256({part(outer_pad), part(inner)});
  OPENSSL_cleanse(outer_pad.data(), kBlock);
  return digest;
}

Secret hkdf_extract(Part salt, Part input) { return hmac_sha256(salt, {input}); }

Secret hkdf_expand(const Secret& key, std::string_view label, Part context) {
  const std::array<std::byte, 1> counter{std::byte{1}};
  return hmac_sha256(part(key), {part(label), context, part(counter)});
}

Secret x25519_public(const Secret& secret) {
  const auto key = private_key(secret);
  Secret out;
  std::size_t size = out.size();
  SYNCLINE_ASSERT(
      EVP_PKEY_get_raw_public_key(key.get(), out.data(), &size) == 1 && size == out.size(),
      "X25519 keys have 32 bytes");
  return out;
}

bool x25519(const Secret& secret, const Secret& peer_public, Secret& shared) {
  const auto key = private_key(secret);
  const Owned<EVP_PKEY> peer(EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr,
                                                         peer_public.data(), peer_public.size()));
  const Owned<EVP_PKEY_CTX> context(EVP_PKEY_CTX_new(key.get(), nullptr));
  std::size_t size = shared.size();
  return peer != nullptr && context != nullptr && EVP_PKEY_derive_init(context.get()) == 1 &&
         EVP_PKEY_derive_set_peer(context.get(), peer.get()) == 1 &&
         EVP_PKEY_derive(context.get(), shared.data(), &size) == 1 && size == shared.size();
}

bool equal_constant_time(Part a, Part b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void random_bytes(std::span<std::byte> out) {
  SYNCLINE_ASSERT(
      RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(out.size())) == 1,
      "the system's random generator works");
}

void wipe(Secret& secret) { OPENSSL_cleanse(secret.data(), secret.size()); }

}  // namespace syncline::cluster
