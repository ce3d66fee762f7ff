// SPDX-License-Identifier: Apache-2.0
// The checksum of a container section: XXH3-64 of the bytes, or for a section beyond kHashChunkBytes
// XXH3-64 of its chunks' XXH3-64 values (little-endian, one after another).
// The one thing to know: chunks let all cores check a large section, so that loading weights costs less
// than copying them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/Hash.h"

namespace hpu::recipe {

inline constexpr uint64_t kHashChunkBytes = uint64_t{8} << 20;

/// Of bytes in memory; large ones on several threads.
uint64_t sectionHash(const uint8_t* data, uint64_t bytes);

/// The same over pieces. Not thread-safe.
class SectionHasher {
 public:
  void update(const uint8_t* data, uint64_t bytes);
  uint64_t digest();

 private:
  void closeChunk();
  std::unique_ptr<base::Hasher> chunk_;
  uint64_t inChunk_ = 0;
  std::vector<uint8_t> hashes_;  ///< Of the closed chunks, 8 bytes each.
};

}  // namespace hpu::recipe
