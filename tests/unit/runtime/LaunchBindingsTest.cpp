// SPDX-License-Identifier: Apache-2.0
#include "runtime/executable/LaunchBindings.h"

#include <gtest/gtest.h>

#include <random>

namespace hpu {
namespace {

TEST(LaunchBindings, FindsOutputsOverInputs) {
  LaunchBindings bindings;
  bindings.inputs = {{100, 50, nullptr}, {300, 10, nullptr}, {0, 0, nullptr}};
  bindings.outputs = {{150, 10, nullptr}, {309, 1, nullptr}, {90, 11, nullptr}, {0, 0, nullptr}};
  EXPECT_EQ(outputsOverInputs(bindings).value(), (std::vector<size_t>{1, 2}));
  bindings.outputs.push_back({152, 1, nullptr});
  EXPECT_EQ(outputsOverInputs(bindings).status().message(),
            "outputs 0 and 4 use the same memory; give each its own buffer");
}

TEST(LaunchBindings, NothingLiesInTheWorkspace) {
  LaunchBindings bindings;
  bindings.inputs = {{100, 50, nullptr}};
  bindings.outputs = {{200, 50, nullptr}};
  bindings.workspace = {150, 50, nullptr};
  EXPECT_TRUE(outputsOverInputs(bindings).ok());
  bindings.workspace.bytes = 51;
  EXPECT_EQ(outputsOverInputs(bindings).status().message(), "output 0 lies in the workspace; give each its own memory");
  bindings.workspace = {149, 1, nullptr};
  EXPECT_EQ(outputsOverInputs(bindings).status().code(), StatusCode::kInvalidArgument);
}

/// Against the comparison of every pair.
TEST(LaunchBindings, AgreesWithAllPairs) {
  std::mt19937 random(7);
  int collisions = 0, refused = 0;
  for (int round = 0; round < 3000; ++round) {
    auto some = [&](size_t most) {
      std::vector<BoundMemory> list(random() % (most + 1));
      for (BoundMemory& memory : list) memory = {random() % 400, static_cast<int64_t>(random() % 30), nullptr};
      return list;
    };
    LaunchBindings bindings{some(8), some(4), {}};
    auto meet = [](const BoundMemory& a, const BoundMemory& b) {
      for (int64_t i = 0; i < a.bytes; ++i) {
        uint64_t byte = a.address + static_cast<uint64_t>(i);
        if (byte >= b.address && byte < b.address + static_cast<uint64_t>(b.bytes)) return true;
      }
      return false;
    };
    bool wrong = false;
    std::vector<size_t> expected;
    for (size_t o = 0; o < bindings.outputs.size(); ++o) {
      for (size_t p = 0; p < o; ++p) wrong |= meet(bindings.outputs[o], bindings.outputs[p]);
      for (const BoundMemory& input : bindings.inputs)
        if (meet(bindings.outputs[o], input)) {
          expected.push_back(o);
          break;
        }
    }
    auto found = outputsOverInputs(bindings);
    ASSERT_EQ(found.ok(), !wrong);
    refused += wrong;
    if (wrong) continue;
    ASSERT_EQ(*found, expected);
    collisions += !expected.empty();
  }
  EXPECT_GT(collisions, 300);
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace hpu
