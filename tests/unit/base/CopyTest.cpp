// SPDX-License-Identifier: Apache-2.0
#include "base/Copy.h"

#include <gtest/gtest.h>

#include <vector>

namespace hpu::base {
namespace {

TEST(Copy, MovesAllBytesAndNoOthers) {
  constexpr int64_t kMost = 10000;
  std::vector<std::byte> from(kMost + 16);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + 1);
  for (int64_t bytes : {0, 1, 63, 1919, 1920, 1921, 3840, 3841, 10000}) {
    for (int64_t shift : {0, 1, 16}) {
      std::vector<std::byte> to(kMost + 32, std::byte{0});
      copyMemory(to.data() + shift, from.data() + 3, bytes);
      for (int64_t i = 0; i < static_cast<int64_t>(to.size()); ++i) {
        const bool inside = i >= shift && i < shift + bytes;
        ASSERT_EQ(to[static_cast<size_t>(i)],
                  inside ? from[static_cast<size_t>(i - shift + 3)] : std::byte{0})
            << bytes << " bytes, shift " << shift << ", at " << i;
      }
    }
  }
}

}  // namespace
}  // namespace hpu::base
