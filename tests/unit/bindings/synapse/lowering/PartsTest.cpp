// SPDX-License-Identifier: Apache-2.0
// The lowering's parts by themselves: element types, node order, section memory, emission helpers.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "bindings/synapse/lowering/ElementTypes.h"
#include "bindings/synapse/lowering/NodeOrder.h"
#include "bindings/synapse/lowering/SectionMemory.h"
#include "compose/Emitter.h"

namespace hpu::synapse {
namespace {

template <typename T>
std::vector<std::byte> bytesOf(std::initializer_list<T> values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

TEST(ElementTypes, EveryTypeGoesThereAndBack) {
  for (uint32_t bit : {1u, 2u, 4u, 8u, 16u, 32u, 256u, 512u, 1024u, 8192u, 16384u, 32768u, 65536u}) {
    StatusOr<ElementType> type = elementTypeOf(bit, Target::kGaudi2);
    ASSERT_TRUE(type.ok()) << bit;
    EXPECT_EQ(synDataTypeOf(*type), bit);
  }
  EXPECT_EQ(*elementTypeOf(8192, Target::kGaudi2), ElementType::kF8E4M3Ieee);
  EXPECT_EQ(*elementTypeOf(8192, Target::kGaudi3), ElementType::kF8E4M3);
  EXPECT_EQ(*elementTypeOf(2048, Target::kGaudi2), ElementType::kF32);  // tf32 is stored as f32.
  EXPECT_EQ(elementTypeOf(64, Target::kGaudi2).status().code(), StatusCode::kUnimplemented);
  for (uint32_t bad : {0u, 3u, 131073u})
    EXPECT_EQ(elementTypeOf(bad, Target::kGaudi2).status().code(), StatusCode::kInvalidArgument);
}

TEST(ElementTypes, ConversionRoundsAndWraps) {
  // 1 + 2^-8 lies between two bf16 numbers and goes to the even one; 3.9 and -3.9 go to zero.
  auto narrow = convertElements(bytesOf<float>({1.00390625f, -2.0f}), ElementType::kF32, ElementType::kBF16, 2);
  ASSERT_TRUE(narrow.ok());
  EXPECT_EQ(*narrow, bytesOf<uint16_t>({0x3f80, 0xc000}));
  EXPECT_EQ(*convertElements(bytesOf<float>({3.9f, -3.9f}), ElementType::kF32, ElementType::kI32, 2),
            bytesOf<int32_t>({3, -3}));
  EXPECT_EQ(*convertElements(bytesOf<int32_t>({-1, 300}), ElementType::kI32, ElementType::kU8, 2),
            bytesOf<uint8_t>({255, 44}));
  EXPECT_EQ(*convertElements(bytesOf<int8_t>({-5}), ElementType::kI8, ElementType::kI64, 1), bytesOf<int64_t>({-5}));
  EXPECT_FALSE(convertElements(bytesOf<float>({1.0f}), ElementType::kF32, ElementType::kBF16, 2).ok());
  EXPECT_FALSE(convertElements(bytesOf<float>({1e30f}), ElementType::kF32, ElementType::kI32, 1).ok());
}

TEST(ElementTypes, SizesAreReversedAndBounded) {
  EXPECT_EQ(*shapeOf({4, 3, 2}), (Shape{2, 3, 4}));
  EXPECT_EQ(sizesText(Shape{2, 3, 4}), "{4, 3, 2}");
  EXPECT_TRUE(shapeOf({0, uint64_t{1} << 40}).ok());
  EXPECT_FALSE(shapeOf({uint64_t{1} << 40, uint64_t{1} << 40}).ok());
  EXPECT_FALSE(shapeOf({UINT64_MAX}).ok());
}

TEST(ElementTypes, TheCompilersTypesAreToldInTheUsersOrder) {
  EXPECT_EQ(inUsersOrder("2x3xf32"), "{3, 2} f32");
  EXPECT_EQ(inUsersOrder("inner dimensions differ: 1x?x4xbf16 x 5x6xbf16 (4 against 5)"),
            "inner dimensions differ: {4, ?, 1} bf16 x {6, 5} bf16 (4 against 5)");
  EXPECT_EQ(inUsersOrder("shapes: tensor<2x3xui8> and tensor<7xi1, #hpu.layout>"),
            "shapes: {3, 2} ui8 and tensor<{7} i1, #hpu.layout>");
  for (const char* same :
       {"", "f32", "4x", "x4xf32", "2x3", "0x10", "max4xf32", "2x3xfoo", "a 3x b", "1 of 2 units cut"})
    EXPECT_EQ(inUsersOrder(same), same);
}

/// Nodes that read and write tensors by number.
GraphDescription graphOf(size_t tensors, std::vector<std::pair<std::vector<int32_t>, std::vector<int32_t>>> nodes) {
  GraphDescription graph;
  graph.tensors.resize(tensors);
  for (size_t i = 0; i < nodes.size(); ++i) {
    NodeDescription node;
    node.id = 100 + i;
    node.name = "n" + std::to_string(i);
    node.inputs = nodes[i].first;
    node.outputs = nodes[i].second;
    graph.nodes.push_back(node);
  }
  return graph;
}

TEST(NodeOrder, KeepsCreationWhereNothingElseOrders) {
  EXPECT_EQ(*orderNodes(graphOf(4, {{{0}, {1}}, {{0}, {2}}, {{0}, {3}}})), (std::vector<size_t>{0, 1, 2}));
}

TEST(NodeOrder, FollowsDataAndControl) {
  GraphDescription graph = graphOf(4, {{{2}, {3}}, {{1}, {2}}, {{0}, {1}}});
  EXPECT_EQ(*orderNodes(graph), (std::vector<size_t>{2, 1, 0}));
  graph = graphOf(4, {{{0}, {1}}, {{0}, {2}}, {{0, kNoTensor}, {3}}});
  graph.nodes[0].after = {102};
  EXPECT_EQ(*orderNodes(graph), (std::vector<size_t>{1, 2, 0}));
}

TEST(NodeOrder, SaysWhatIsWrong) {
  GraphDescription graph = graphOf(3, {{{1}, {2}}, {{2}, {1}}});
  EXPECT_NE(orderNodes(graph).status().message().find("cycle"), std::string::npos);
  graph = graphOf(3, {{{0}, {1}}, {{0}, {1}}});
  EXPECT_NE(orderNodes(graph).status().message().find("already"), std::string::npos);
  for (int32_t bad : {3, -7})
    EXPECT_NE(orderNodes(graphOf(3, {{{bad}, {1}}})).status().message().find("no tensor"), std::string::npos);
  graph = graphOf(3, {{{0}, {1}}});
  graph.nodes[0].after = {999};
  EXPECT_NE(orderNodes(graph).status().message().find("999"), std::string::npos);
  graph.nodes[0].after = {100};
  EXPECT_FALSE(orderNodes(graph).ok());
}

TEST(NodeOrder, ANodeMayReadAndWriteOneTensor) {
  EXPECT_TRUE(orderNodes(graphOf(2, {{{0}, {0}}})).ok());
}

TEST(SectionMemory, KnowsWhatIsCovered) {
  Graph graph("g");
  Value v = *graph.input("v", {ElementType::kF32, {4}});
  SectionMemory memory;
  memory.write({0, 16, 32}, v);
  EXPECT_TRUE(memory.isWritten({0, 0, 20}));
  EXPECT_FALSE(memory.isWritten({0, 0, 16}));
  EXPECT_FALSE(memory.isWritten({1, 16, 32}));
  EXPECT_FALSE(memory.isWritten({kNoSection, 16, 32}));
  EXPECT_TRUE(memory.isCovered({0, 20, 28}));
  EXPECT_FALSE(memory.isCovered({0, 20, 36}));
  Emitter e(graph, "e");
  EXPECT_EQ(memory.read(e, {0, 16, 32}, {ElementType::kF32, {4}}, {}).handle, v.handle);
  EXPECT_EQ(e.shape(memory.read(e, {0, 20, 28}, {ElementType::kF32, {1, 2}}, {})), (Shape{1, 2}));
  // Other places and types are bytes put together.
  EXPECT_EQ(e.type(memory.read(e, {0, 18, 22}, {ElementType::kF32, {1}}, {})), (TensorType{ElementType::kF32, {1}}));
  EXPECT_EQ(e.type(memory.read(e, {0, 17, 27}, {ElementType::kBF16, {5}}, {})), (TensorType{ElementType::kBF16, {5}}));
  EXPECT_TRUE(e.ok()) << e.status().message();
}

TEST(Emitter, KeepsTheFirstFailureAndEmitsNothingAfterIt) {
  Graph graph("g");
  Emitter e(graph, "node", &inUsersOrder);
  Value x = *graph.input("x", {ElementType::kF32, {2, 3}}), y = *graph.input("y", {ElementType::kF32, {4, 5}});
  EXPECT_FALSE(e.add(x, y).handle);
  std::string first = e.status().message();
  EXPECT_NE(first.find("{3, 2}"), first.npos) << first;
  EXPECT_EQ(first.find("2x3"), first.npos) << first;
  EXPECT_FALSE(e.mul(x, x).handle);
  e.fail("later");
  EXPECT_EQ(e.status().message(), first);
}

TEST(Emitter, NothingIsEmittedWhereNothingChanges) {
  Graph graph("g");
  Emitter e(graph, "node");
  Value x = *graph.input("x", {ElementType::kF32, {2, 3}});
  for (Value same :
       {e.reshape(x, {2, 3}), e.transpose(x, {0, 1}), e.expand(x, {2, 3}), e.cast(x, ElementType::kF32),
        e.concat({x}, 0), e.pad(x, {0, 0}, {0, 0}), e.spread(x, {1, 1}), e.sliceDim(x, 1, 0, 3), e.sumTo(x, {2, 3})})
    EXPECT_EQ(same.handle, x.handle);
}

TEST(Emitter, ShapesOfCompositions) {
  Graph graph("g");
  Emitter e(graph, "node");
  Value x = *graph.input("x", {ElementType::kBF16, {4, 2, 3}});
  EXPECT_EQ(e.shape(e.spread(x, {1, 3, 2})), (Shape{4, 4, 5}));
  EXPECT_EQ(e.shape(e.sumTo(x, {1, 3})), (Shape{1, 3}));
  EXPECT_EQ(e.shape(e.full({ElementType::kI32, {2, 5}}, 7)), (Shape{2, 5}));
  EXPECT_EQ(e.element(e.scalar(1.5, ElementType::kBF16)), ElementType::kBF16);
  EXPECT_EQ(e.dim(x, -1), 3);
  EXPECT_EQ(e.element(e.indices({1}, {int64_t{1} << 40})), ElementType::kI64);
  EXPECT_TRUE(e.ok());
}

}  // namespace
}  // namespace hpu::synapse
