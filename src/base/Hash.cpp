// SPDX-License-Identifier: Apache-2.0
#include "base/Hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace hpu::base {

struct Hasher::State {
  XXH3_state_t wide, narrow;
};

uint64_t hash64(const void* data, size_t bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes ? data : "", bytes, seed);
}

Hash128 hash128(const void* data, size_t bytes) {
  XXH128_hash_t hash = XXH3_128bits(bytes ? data : "", bytes);
  return {hash.low64, hash.high64};
}

std::string Hash128::hex() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (int i = 0; i < 16; ++i) {
    text[15 - i] = kDigits[(high >> (4 * i)) & 15];
    text[31 - i] = kDigits[(low >> (4 * i)) & 15];
  }
  return text;
}

Hasher::Hasher() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->narrow);
  XXH3_128bits_reset(&state_->wide);
}
Hasher::~Hasher() = default;

void Hasher::update(const void* data, size_t bytes) {
  if (bytes == 0) return;
  XXH3_64bits_update(&state_->narrow, data, bytes);
  XXH3_128bits_update(&state_->wide, data, bytes);
}

void Hasher::updateSized(std::string_view text) {
  uint64_t size = text.size();
  update(&size, sizeof(size));
  update(text.data(), text.size());
}

uint64_t Hasher::digest64() const {
  return XXH3_64bits_digest(&state_->narrow);
}
Hash128 Hasher::digest128() const {
  XXH128_hash_t hash = XXH3_128bits_digest(&state_->wide);
  return {hash.low64, hash.high64};
}

}  // namespace hpu::base
