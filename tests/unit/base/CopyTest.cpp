// SPDX-License-Identifier: Apache-2.0
#include "base/Copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace hpu::base {
namespace {

TEST(Copy, MovesAllBytesAndNoOthers) {
  constexpr int64_t kMost = 1100000;
  std::vector<std::byte> from(kMost + 16);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + 1);
  for (int64_t bytes : std::vector<int64_t>{0, 1, 63, 1919, 1920, 1921, 3841, 1 << 20, kMost}) {
    for (int64_t shift : {0, 1, 16}) {
      std::vector<std::byte> to(kMost + 32, std::byte{0}), expected = to;
      std::copy_n(from.begin() + 3, bytes, expected.begin() + shift);
      copyMemory(to.data() + shift, from.data() + 3, bytes);
      ASSERT_TRUE(to == expected) << bytes << " bytes, shift " << shift;
    }
  }
}

}  // namespace
}  // namespace hpu::base
