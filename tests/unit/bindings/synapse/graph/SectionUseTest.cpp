// SPDX-License-Identifier: Apache-2.0
// Which nodes use the same bytes of a section without an order: tables of small graphs, and random ones against an
// enumeration of every byte and every path.
#include "bindings/synapse/graph/SectionUse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>

namespace hpu::synapse {
namespace {

using testing::HasSubstr;

constexpr uint32_t kF32 = 4, kBf16 = 2;

/// Graphs of nodes "n0", "n1" ... and tensors "t0" ...
struct Builder {
  GraphDescription graph;

  explicit Builder(size_t sections = 1) {
    for (size_t i = 0; i < sections; ++i)
      graph.sections.push_back({static_cast<uint32_t>(10 + i), 0, true, false, false});
  }
  int32_t tensor(uint32_t section, uint64_t offset, std::vector<uint64_t> sizes, std::vector<uint64_t> strides = {},
                 uint32_t type = kF32) {
    TensorDescription t;
    t.id = graph.tensors.size();
    t.name = "t" + std::to_string(graph.tensors.size());
    t.dataType = type;
    t.maxSizes = t.minSizes = std::move(sizes);
    t.strides = std::move(strides);
    t.section = section;
    t.sectionOffset = offset;
    graph.tensors.push_back(t);
    return static_cast<int32_t>(graph.tensors.size() - 1);
  }
  int32_t loose() { return tensor(kNoSection, 0, {4}); }
  size_t node(std::vector<int32_t> inputs, std::vector<int32_t> outputs, std::vector<size_t> after = {}) {
    NodeDescription n;
    n.id = 100 + graph.nodes.size();
    n.name = "n" + std::to_string(graph.nodes.size());
    n.guid = "memcpy";
    n.inputs = std::move(inputs);
    n.outputs = std::move(outputs);
    for (size_t other : after) n.after.push_back(100 + other);
    graph.nodes.push_back(n);
    return graph.nodes.size() - 1;
  }
  Status check() const { return checkSectionOrder(graph); }
};

TEST(SectionUse, TwoWritersWithoutAnOrderAreNamedWithTheirBytes) {
  Builder b;
  int32_t x = b.loose(), low = b.tensor(0, 0, {8}), high = b.tensor(0, 16, {8});
  b.node({x}, {low});
  b.node({x}, {high});
  Status status = b.check();
  ASSERT_EQ(status.code(), StatusCode::kInvalidArgument);
  for (const char* part : {"node 'n0' (memcpy) writes tensor 't1'", "node 'n1' (memcpy) writes tensor 't2'",
                           "bytes 16 to 32 of section 10", "neither depends on the other"})
    EXPECT_THAT(status.message(), HasSubstr(part));
}

TEST(SectionUse, PlacesThatOnlyTouchAreNone) {
  Builder b(2);
  b.node({b.loose()}, {b.tensor(0, 0, {8})});
  b.node({b.loose()}, {b.tensor(0, 32, {8})});
  b.node({b.loose()}, {b.tensor(1, 0, {8})});
  b.node({b.loose()}, {b.tensor(0, 0, {0, 8})});
  EXPECT_TRUE(sectionConflicts(b.graph).empty());
  EXPECT_TRUE(b.check().ok()) << b.check().message();
}

TEST(SectionUse, ReadersAloneAreNone) {
  Builder b;
  int32_t x = b.tensor(0, 0, {8});
  b.node({x}, {b.loose()});
  b.node({x, b.tensor(0, 8, {8})}, {b.loose()});
  EXPECT_TRUE(b.check().ok());
}

TEST(SectionUse, OneNodeMayReadWhereItWrites) {
  Builder b;
  b.node({b.tensor(0, 0, {8})}, {b.tensor(0, 0, {8}), b.tensor(0, 16, {8})});
  EXPECT_TRUE(b.check().ok()) << b.check().message();
}

TEST(SectionUse, DataAndControlAreOrders) {
  Builder data;
  int32_t middle = data.loose();
  data.node({data.tensor(0, 0, {8})}, {middle});
  data.node({middle}, {data.tensor(0, 0, {8})});
  EXPECT_TRUE(data.check().ok());

  Builder control;
  control.node({control.loose()}, {control.tensor(0, 0, {8})});
  control.node({control.loose()}, {control.loose()}, {0});
  control.node({control.loose()}, {control.tensor(0, 4, {8})}, {1});
  EXPECT_TRUE(control.check().ok()) << "over a node between them";

  Builder back;  // The earlier created one comes later.
  back.node({back.loose()}, {back.tensor(0, 0, {8})}, {1});
  back.node({back.loose()}, {back.tensor(0, 4, {8})});
  EXPECT_TRUE(back.check().ok());
}

TEST(SectionUse, WhatTheLaunchBeganWithIsReadFirst) {
  Builder first;
  first.node({first.tensor(0, 0, {8})}, {first.loose()});
  first.node({first.loose()}, {first.tensor(0, 0, {8})});
  EXPECT_TRUE(first.check().ok()) << first.check().message();

  Builder second;  // Created after the writer: which value it reads is not said.
  second.node({second.loose()}, {second.tensor(0, 0, {8})});
  int32_t view = second.tensor(0, 0, {8});
  second.node({view}, {second.loose()});
  EXPECT_THAT(second.check().message(), HasSubstr("'n1' (memcpy) reads tensor 't" + std::to_string(view) + "'"));

  Builder produced;  // It reads what another node wrote, not what the launch began with.
  int32_t made = produced.tensor(0, 0, {8});
  produced.node({produced.loose()}, {made});
  produced.node({made}, {produced.loose()});
  produced.node({produced.loose()}, {produced.tensor(0, 0, {8})}, {0});
  EXPECT_THAT(produced.check().message(), HasSubstr("'n1' (memcpy) reads"));

  Builder rewritten;  // The same through another tensor of the place.
  rewritten.node({rewritten.loose()}, {rewritten.tensor(0, 0, {8})});
  rewritten.node({rewritten.tensor(0, 0, {8})}, {rewritten.loose()}, {0});
  rewritten.node({rewritten.loose()}, {rewritten.tensor(0, 0, {8})}, {0});
  EXPECT_THAT(rewritten.check().message(), HasSubstr("'n1' (memcpy) reads"));
}

/// A step of training: forward and backward read the weights, the update reads and writes them.
TEST(SectionUse, TrainingInPlaceIsOrdered) {
  Builder b(2);
  int32_t w = b.tensor(0, 0, {8}), x = b.tensor(1, 0, {8}), y = b.loose(), dw = b.loose(), dx = b.loose();
  b.node({x, w}, {y});
  b.node({y, x}, {dw});
  b.node({y, w}, {dx});
  b.node({dw, w}, {b.tensor(0, 0, {8})});
  EXPECT_TRUE(b.check().ok()) << b.check().message();
}

TEST(SectionUse, ElementsMayLieBetweenEachOthers) {
  Builder columns;  // [4 of 8, 16 rows], two halves of each row.
  columns.node({columns.loose()}, {columns.tensor(0, 0, {4, 16}, {4, 32})});
  columns.node({columns.loose()}, {columns.tensor(0, 16, {4, 16}, {4, 32})});
  EXPECT_TRUE(columns.check().ok()) << columns.check().message();

  Builder elements;  // Even and odd ones; one of them is shifted into the other.
  elements.node({elements.loose()}, {elements.tensor(0, 0, {16}, {8})});
  elements.node({elements.loose()}, {elements.tensor(0, 4, {16}, {8})});
  EXPECT_TRUE(elements.check().ok());
  elements.node({elements.loose()}, {elements.tensor(0, 6, {4}, {8}, kBf16)});
  EXPECT_THAT(elements.check().message(), HasSubstr("bytes 6 to 8"));
}

TEST(SectionUse, ManyPairsAreToldInPart) {
  Builder b;
  for (int i = 0; i < 40; ++i) b.node({b.loose()}, {b.tensor(0, 0, {8})});
  std::string text(b.check().message());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 16);
  EXPECT_THAT(text, HasSubstr("more of them"));
}

TEST(SectionUse, HugeTensorsAreNoWork) {
  Builder b;
  uint64_t much = uint64_t{1} << 40;
  b.node({b.loose()}, {b.tensor(0, 0, {much, 2}, {8, much * 8})});
  b.node({b.loose()}, {b.tensor(0, 4, {much, 2}, {8, much * 8})});
  b.node({b.loose()}, {b.tensor(0, 0, {UINT64_MAX, UINT64_MAX, UINT64_MAX})});
  b.node({b.loose()}, {b.tensor(0, UINT64_MAX - 4, {8})});
  (void)b.check();
}

// ---- Random graphs ----------------------------------------------------------------------------------

std::set<uint64_t> bytesOf(const TensorDescription& tensor) {
  std::set<uint64_t> starts{tensor.sectionOffset}, bytes;
  uint64_t element = tensor.dataType == kF32 ? 4 : 2, dense = element;
  if (tensor.section == kNoSection) return {};
  for (size_t d = 0; d < tensor.maxSizes.size(); ++d) {
    uint64_t stride = tensor.strides.empty() ? dense : tensor.strides[d];
    if (tensor.maxSizes[d] == 0) return {};
    std::set<uint64_t> next;
    for (uint64_t start : starts)
      for (uint64_t i = 0; i < tensor.maxSizes[d]; ++i) next.insert(start + i * stride);
    starts.swap(next);
    dense *= tensor.maxSizes[d];
  }
  for (uint64_t start : starts)
    for (uint64_t i = 0; i < element; ++i) bytes.insert(start + i);
  return bytes;
}

/// The pairs without an order, by the rule's words.
std::set<std::pair<size_t, size_t>> expected(const GraphDescription& graph) {
  const size_t count = graph.nodes.size();
  std::vector<std::vector<bool>> before(count, std::vector<bool>(count));
  std::map<int32_t, size_t> producer;
  for (size_t n = 0; n < count; ++n)
    for (int32_t t : graph.nodes[n].outputs) producer[t] = n;
  for (size_t n = 0; n < count; ++n) {
    for (int32_t t : graph.nodes[n].inputs)
      if (producer.count(t)) before[producer[t]][n] = true;
    for (uint64_t id : graph.nodes[n].after) before[id - 100][n] = true;
  }
  for (size_t k = 0; k < count; ++k)
    for (size_t i = 0; i < count; ++i)
      for (size_t j = 0; j < count; ++j)
        if (before[i][k] && before[k][j]) before[i][j] = true;
  auto meet = [&](int32_t a, int32_t b) {
    const auto &x = graph.tensors[static_cast<size_t>(a)], &y = graph.tensors[static_cast<size_t>(b)];
    if (x.section != y.section || x.section == kNoSection) return false;
    std::set<uint64_t> bytes = bytesOf(x);
    for (uint64_t byte : bytesOf(y))
      if (bytes.count(byte)) return true;
    return false;
  };
  auto beganWith = [&](size_t reader, int32_t tensor) {
    if (producer.count(tensor)) return false;
    for (size_t n = 0; n < count; ++n)
      for (int32_t t : graph.nodes[n].outputs)
        if (before[n][reader] && meet(t, tensor)) return false;
    return true;
  };
  std::set<std::pair<size_t, size_t>> pairs;
  for (size_t a = 0; a < count; ++a)
    for (size_t b = a + 1; b < count; ++b) {
      if (before[a][b] || before[b][a]) continue;
      bool bad = false;
      for (int32_t t : graph.nodes[a].outputs)
        for (const auto* list : {&graph.nodes[b].inputs, &graph.nodes[b].outputs})
          for (int32_t u : *list) bad |= meet(t, u);
      for (int32_t t : graph.nodes[a].inputs)
        for (int32_t u : graph.nodes[b].outputs) bad |= meet(t, u) && !beganWith(a, t);
      if (bad) pairs.emplace(a, b);
    }
  return pairs;
}

TEST(SectionUse, RandomGraphsAreJudgedByEveryByteAndPath) {
  std::mt19937 random(7);
  auto below = [&](uint32_t n) { return random() % n; };
  size_t good = 0, bad = 0;
  for (int round = 0; round < 400; ++round) {
    Builder b(2);
    std::vector<int32_t> made;
    const size_t count = 2 + below(5);
    for (size_t n = 0; n < count; ++n) {
      auto some = [&]() -> int32_t {
        if (!made.empty() && below(3) == 0) return made[below(static_cast<uint32_t>(made.size()))];
        uint32_t section = below(3);
        if (section == 2) return b.loose();
        std::vector<uint64_t> sizes{1 + below(4)}, strides;
        if (below(2)) sizes.push_back(1 + below(3));
        if (below(2)) {
          strides.push_back(4 + 4 * below(3));
          if (sizes.size() > 1) strides.push_back(4 * (1 + below(8)));
        }
        return b.tensor(section, 2 * below(64), sizes, strides, strides.empty() && below(2) ? kBf16 : kF32);
      };
      std::vector<int32_t> inputs{some()};
      if (below(2)) inputs.push_back(some());
      int32_t out = some();
      while (std::find(made.begin(), made.end(), out) != made.end() ||
             std::find(inputs.begin(), inputs.end(), out) != inputs.end())
        out = some();
      std::vector<size_t> after;
      if (n > 0 && below(3) == 0) after.push_back(below(static_cast<uint32_t>(n)));
      b.node(inputs, {out}, after);
      made.push_back(out);
    }
    auto pairs = expected(b.graph);
    Status status = b.check();
    EXPECT_EQ(status.ok(), pairs.empty()) << round << ": " << status.message();
    for (auto [first, second] : pairs) {
      std::string name = "'n" + std::to_string(first) + "'", other = "'n" + std::to_string(second) + "'";
      EXPECT_THAT(status.message(), testing::AllOf(HasSubstr(name), HasSubstr(other))) << round;
    }
    ++(pairs.empty() ? good : bad);
  }
  EXPECT_GT(good, 50u);
  EXPECT_GT(bad, 50u);
}

}  // namespace
}  // namespace hpu::synapse
