// SPDX-License-Identifier: Apache-2.0
// Content hashes (XXH3 of the xxHash library): checksums of file sections and cache keys.
// The one thing to know: XXH3 detects accidents, not forgery; the values are the same on every
// machine and may be stored in files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace hpu::base {

/// XXH3-64 of the bytes.
uint64_t hash64(const void* data, size_t bytes, uint64_t seed = 0);
inline uint64_t hash64(std::string_view text, uint64_t seed = 0) {
  return hash64(text.data(), text.size(), seed);
}

struct Hash128 {
  uint64_t low = 0, high = 0;
  bool operator==(const Hash128&) const = default;
  /// 32 lower-case hexadecimal digits, most significant first.
  std::string hex() const;
};
/// XXH3-128 of the bytes, wide enough for a cache key.
Hash128 hash128(const void* data, size_t bytes);

/// The same hashes over pieces; equal to one call over all of them. Not thread-safe.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  void update(const void* data, size_t bytes);
  /// Adds the length first, so that ("ab", "c") and ("a", "bc") differ.
  void updateSized(std::string_view text);
  uint64_t digest64() const;
  Hash128 digest128() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hpu::base
