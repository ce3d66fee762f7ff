// SPDX-License-Identifier: Apache-2.0
#include "compiler/memory/Capacity.h"

#include <gtest/gtest.h>

namespace hpu::memory {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

TEST(Capacity, AcceptsAProgramThatFillsTheMemoryExactly) {
  EXPECT_TRUE(checkCapacity({10 * kGiB, 20 * kGiB, kGiB, kGiB}, 32 * kGiB, "gaudi1").ok());
}

TEST(Capacity, RefusesOneByteMoreWithEveryNumberAndTheMend) {
  Status status = checkCapacity({10 * kGiB, 20 * kGiB + 1, kGiB, kGiB}, 32 * kGiB, "gaudi1");
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  for (const char* part : {"gaudi1", "weights 10", "workspace 20", "inputs 1", "outputs 1", "batch"})
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
}

TEST(Capacity, NamesAnotherMendWhenTheWeightsAreWhatIsLarge) {
  Status status = checkCapacity({40 * kGiB, 0, 0, 0}, 32 * kGiB, "gaudi1");
  EXPECT_NE(status.message().find("bf16"), std::string::npos) << status.message();
  EXPECT_EQ(status.message().find("batch"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace hpu::memory
