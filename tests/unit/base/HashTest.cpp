// SPDX-License-Identifier: Apache-2.0
#include "base/Hash.h"

#include <gtest/gtest.h>

#include <vector>

namespace hpu::base {
namespace {

// The two values are those that the XXH3 specification gives for empty input and seed 0.
TEST(Hash, EmptyInputHasThePublishedValue) {
  EXPECT_EQ(hash64("", 0), 0x2d06800538d394c2ull);
  EXPECT_EQ(hash128("", 0).hex(), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash, PiecesEqualTheWhole) {
  std::vector<uint8_t> data(100000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 31 + (i >> 8));
  Hasher hasher;
  for (size_t i = 0; i < data.size();) {
    size_t step = std::min<size_t>(data.size() - i, 1 + i % 977);
    hasher.update(data.data() + i, step);
    i += step;
  }
  EXPECT_EQ(hasher.digest64(), hash64(data.data(), data.size()));
  EXPECT_EQ(hasher.digest128(), hash128(data.data(), data.size()));
}

TEST(Hash, OneBitAndTheSeedMatter) {
  char data[64] = {};
  uint64_t before = hash64(data, sizeof(data));
  EXPECT_NE(hash64(data, sizeof(data), 1), before);
  data[63] ^= 1;
  EXPECT_NE(hash64(data, sizeof(data)), before);
}

TEST(Hash, SizedUpdatesKeepBoundaries) {
  Hasher a, b;
  a.updateSized("ab");
  a.updateSized("c");
  b.updateSized("a");
  b.updateSized("bc");
  EXPECT_NE(a.digest64(), b.digest64());
}

}  // namespace
}  // namespace hpu::base
