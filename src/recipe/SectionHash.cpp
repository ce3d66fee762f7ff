// SPDX-License-Identifier: Apache-2.0
#include "recipe/SectionHash.h"

#include <algorithm>

#include "base/Parallel.h"
#include "recipe/LittleEndian.h"

namespace hpu::recipe {

uint64_t sectionHash(const uint8_t* data, uint64_t bytes) {
  if (bytes <= kHashChunkBytes) return base::hash64(data, bytes);
  const uint64_t chunks = (bytes + kHashChunkBytes - 1) / kHashChunkBytes;
  std::vector<uint8_t> hashes(8 * chunks);
  base::parallelFor(static_cast<int64_t>(chunks), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const uint64_t at = static_cast<uint64_t>(i) * kHashChunkBytes;
      const uint64_t size = std::min(kHashChunkBytes, bytes - at);
      storeLe(hashes.data() + 8 * i, base::hash64(data + at, size));
    }
  });
  return base::hash64(hashes.data(), hashes.size());
}

void SectionHasher::update(const uint8_t* data, uint64_t bytes) {
  while (bytes > 0) {
    // A chunk is closed only when more follows, so that one chunk alone is hashed plainly.
    if (inChunk_ == kHashChunkBytes) closeChunk();
    if (!chunk_) chunk_ = std::make_unique<base::Hasher>();
    const uint64_t take = std::min(bytes, kHashChunkBytes - inChunk_);
    chunk_->update(data, take);
    inChunk_ += take;
    data += take;
    bytes -= take;
  }
}

uint64_t SectionHasher::digest() {
  if (hashes_.empty()) return chunk_ ? chunk_->digest64() : base::hash64(nullptr, 0);
  if (inChunk_ > 0) closeChunk();
  return base::hash64(hashes_.data(), hashes_.size());
}

void SectionHasher::closeChunk() {
  hashes_.resize(hashes_.size() + 8);
  storeLe(hashes_.data() + hashes_.size() - 8, chunk_->digest64());
  chunk_.reset();
  inChunk_ = 0;
}

}  // namespace hpu::recipe
