// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/Proof.h"

#include <sodium.h>
#include <sys/random.h>

#include <cerrno>

#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::collectives {
namespace {

static_assert(kSecretBytes >= crypto_generichash_KEYBYTES_MIN && kSecretBytes <= crypto_generichash_KEYBYTES_MAX);
static_assert(sizeof(Proof) >= crypto_generichash_BYTES_MIN && sizeof(Proof) <= crypto_generichash_BYTES_MAX);

/// BLAKE2b of fields of which each has its size before it: no two lists of fields have the same bytes.
class Hash {
 public:
  explicit Hash(const Secret* key) {
    ::crypto_generichash_init(&state_, key ? key->data() : nullptr, key ? key->size() : 0, sizeof(Proof));
  }
  Hash& number(uint64_t value) {
    std::array<uint8_t, 8> bytes;
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(value >> (8 * i));
    ::crypto_generichash_update(&state_, bytes.data(), bytes.size());
    return *this;
  }
  Hash& text(std::string_view value) {
    number(value.size());
    ::crypto_generichash_update(&state_, reinterpret_cast<const unsigned char*>(value.data()), value.size());
    return *this;
  }
  Hash& bytes(const std::array<uint8_t, 32>& value) {
    return text({reinterpret_cast<const char*>(value.data()), value.size()});
  }
  std::array<uint8_t, 32> result() {
    std::array<uint8_t, 32> out;
    ::crypto_generichash_final(&state_, out.data(), out.size());
    return out;
  }

 private:
  crypto_generichash_state state_;
};

StatusOr<std::array<uint8_t, 32>> randomBytes() {
  std::array<uint8_t, 32> bytes;
  // Up to 256 bytes come whole, and no signal interrupts them.
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return unavailable("no random numbers: " + base::errnoText(errno));
  return bytes;
}

}  // namespace

StatusOr<Secret> randomSecret() {
  return randomBytes();
}
StatusOr<Challenge> randomChallenge() {
  return randomBytes();
}

Secret secretOfText(std::string_view text, std::string_view place) {
  return Hash(nullptr).text("OpenHPU: a communicator's secret").text(place).text(text).result();
}

Secret derivedSecret(const Secret& secret, std::string_view purpose, uint64_t number) {
  if (!isKnown(secret)) return secret;
  return Hash(&secret).text("OpenHPU: a secret of another one").text(purpose).number(number).result();
}

Proof prove(const Secret& secret, Side side, const Meeting& meeting) {
  return Hash(&secret)
      .text("OpenHPU: a proof")
      .text(meeting.protocol)
      .number(meeting.version)
      .number(static_cast<uint64_t>(side))
      .bytes(meeting.dialler)
      .bytes(meeting.listener)
      .text(meeting.said)
      .result();
}

bool isProof(const Proof& proof, const Secret& secret, Side side, const Meeting& meeting) {
  const Proof right = prove(secret, side, meeting);
  return ::sodium_memcmp(proof.data(), right.data(), right.size()) == 0;
}

}  // namespace hpu::collectives
