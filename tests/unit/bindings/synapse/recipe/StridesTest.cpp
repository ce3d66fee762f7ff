// SPDX-License-Identifier: Apache-2.0
// Persistent tensors whose strides leave gaps, and addresses that are no multiple of the element size, by the C API.
// What nodes compute with them is the conformance tests' subject (test_strides.py).
#include <cstring>

#include "tests/unit/bindings/synapse/recipe/CompiledFixture.h"

namespace hpu::testing {
namespace {

class SynapseStrides : public CompiledFixture {};

TEST_F(SynapseStrides, GapsStayAndAreNotRead) {
  synTensor x = makeFloats("x", {3, 2}), y = makeFloats("y", {3, 2});
  setStrides(x, {8, 32});  // Every second float, rows of eight.
  setStrides(y, {4, 20});
  ASSERT_SYN(addNode("neg_fwd_f32", {x}, {y}));
  synRecipeHandle recipe = compile();
  uint64_t xs = upload(counting(16)), ys = upload(Floats(9, 77));
  ASSERT_SYN(launch(recipe, {{"x", xs}, {"y", ys}}));
  EXPECT_EQ(floats(ys, 9), (Floats{0, -2, -4, 77, 77, -8, -10, -12, 77}));
}

TEST_F(SynapseStrides, TakeTheRoomThatTheyReach) {
  synTensor x = makeFloats("x", {3, 2}), y = makeFloats("y", {3, 2});
  setStrides(y, {4, 400});
  ASSERT_SYN(addNode("neg_fwd_f32", {x}, {y}));
  synRecipeHandle recipe = compile();
  synRecipeAttribute attribute = RECIPE_ATTRIBUTE_PERSISTENT_TENSORS_SIZE;
  uint64_t bytes = 0;
  ASSERT_SYN(synRecipeGetAttribute(&bytes, &attribute, 1, recipe));
  EXPECT_EQ(bytes, 24u + 412u);
  uint64_t xs = upload(counting(6)), ys = allocate(411);
  EXPECT_EQ(launch(recipe, {{"x", xs}, {"y", ys}}), synInvalidArgument) << "one byte too few";
  ys = allocate(412);
  ASSERT_SYN(launch(recipe, {{"x", xs}, {"y", ys}}));
  EXPECT_EQ(floats(ys + 400, 3), (Floats{-3, -4, -5}));
}

TEST_F(SynapseStrides, ResultsThatInterleaveAreOneLaunch) {
  // Two results in one place: even and odd elements.
  synSectionHandle section = nullptr;
  synTensor x = makeFloats("x", {4}), even = makeFloats("even", {4}, false), odd = makeFloats("odd", {4}, false);
  setStrides(even, {8});
  setStrides(odd, {8});
  section = persist(graph, even);
  persist(graph, odd, section, 4);
  ASSERT_SYN(addNode("neg_fwd_f32", {x}, {even}, "evens"));
  synNodeId first = 0, second = 0;
  synTensor t = makeFloats("t", {4});
  ASSERT_SYN(synNodeCreateWithId(graph, &even, &t, 1, 1, nullptr, 0, "abs_fwd_f32", "abs", &first, nullptr, nullptr));
  ASSERT_SYN(synNodeCreateWithId(graph, &t, &odd, 1, 1, nullptr, 0, "identity", "odds", &second, nullptr, nullptr));
  synRecipeHandle recipe = compile();
  uint64_t xs = upload({1, 2, 3, 4}), place = upload(Floats(9, 77)), ts = upload(Floats(4));
  ASSERT_SYN(launch(recipe, {{"x", xs}, {"even", place}, {"odd", place + 4}, {"t", ts}}));
  EXPECT_EQ(floats(place, 9), (Floats{-1, 1, -2, 2, -3, 3, -4, 4, 77}));
}

TEST_F(SynapseStrides, WeightsAreUpdatedInPlace) {
  synTensor w = makeFloats("w", {2, 3}, false), x = makeFloats("x", {2, 3}), sum = makeFloats("sum", {2, 3}, false);
  for (synTensor tensor : {w, sum}) setStrides(tensor, {4, 12});
  persist(graph, sum, persist(graph, w));
  ASSERT_SYN(addNode("add_fwd_f32", {w, x}, {sum}));
  synRecipeHandle recipe = compile();
  uint64_t ws = upload({1, 2, 90, 3, 4, 91, 5, 6, 92}), xs = upload({10, 20, 30, 40, 50, 60});
  for (int i = 0; i < 2; ++i) ASSERT_SYN(launch(recipe, {{"w", ws}, {"sum", ws}, {"x", xs}}));
  EXPECT_EQ(floats(ws, 9), (Floats{21, 42, 90, 63, 84, 91, 105, 126, 92}));
}

TEST_F(SynapseStrides, AValueOfAConstSectionLiesByThem) {
  synSectionHandle section = nullptr;
  ASSERT_SYN(synSectionCreate(&section, 0, graph));
  ASSERT_SYN(synSectionSetConst(section, true));
  synTensor w = makeFloats("w", {2, 2}, false), x = makeFloats("x", {2, 2}), y = makeFloats("y", {2, 2});
  setStrides(w, {4, 16});
  persist(graph, w, section);
  Floats weights = {1, 2, 3, 4};
  ASSERT_SYN(synTensorSetHostPtr(w, weights.data(), 16, syn_type_float, true));
  ASSERT_SYN(addNode("add_fwd_f32", {x, w}, {y}));
  synRecipeHandle recipe = compile();
  synRetrievedLaunchTensorInfo of = {};
  of.tensorId = idOf(recipe, "w");
  ASSERT_SYN(synTensorRetrieveLaunchInfoById(recipe, 1, &of));
  const synSectionId id = of.tensorSectionId;
  uint64_t size = 0, data = 0;
  ASSERT_SYN(synRecipeSectionGetProp(recipe, id, SECTION_SIZE, &size));
  ASSERT_SYN(synRecipeSectionGetProp(recipe, id, SECTION_DATA, &data));
  ASSERT_EQ(size, 24u);
  Floats memory(6);
  std::memcpy(memory.data(), reinterpret_cast<const void*>(data), 24);
  EXPECT_EQ(memory, (Floats{1, 2, 0, 0, 3, 4}));
  uint64_t ws = upload(memory), xs = upload({10, 20, 30, 40}), ys = upload(Floats(4));
  ASSERT_SYN(launch(recipe, {{"w", ws}, {"x", xs}, {"y", ys}}));
  EXPECT_EQ(floats(ys, 4), (Floats{11, 22, 33, 44}));
}

TEST_F(SynapseStrides, HoldForEverySizeOfALaunch) {
  synTensor x = makeFree("x", {1, 0}, {4, 5}), y = makeFree("y", {1, 0}, {4, 5});
  setStrides(x, {4, 24});
  setStrides(y, {8, 40});
  ASSERT_SYN(addNode("neg_fwd_f32", {x}, {y}));
  synRecipeHandle recipe = compile();
  uint64_t xs = upload(counting(30)), ys = allocate(4 * 50);
  for (auto [columns, rows] : {std::pair<uint64_t, uint64_t>{4, 5}, {2, 3}, {1, 1}, {3, 0}, {4, 4}}) {
    write(ys, Floats(50, 77));
    ASSERT_SYN(launch(recipe, {{"x", xs, {columns, rows}}, {"y", ys, {columns, rows}}}));
    Floats wanted(50, 77);
    for (uint64_t r = 0; r < rows; ++r)
      for (uint64_t c = 0; c < columns; ++c) wanted[r * 10 + c * 2] = -static_cast<float>(r * 6 + c);
    EXPECT_EQ(floats(ys, 50), wanted) << columns << " columns, " << rows << " rows";
  }
}

TEST_F(SynapseStrides, WhatCannotBeWrittenIsRefused) {
  synTensor x = makeFloats("x", {4, 4}), y = makeFloats("y", {4, 4});
  setStrides(y, {4, 8});
  ASSERT_SYN(addNode("neg_fwd_f32", {x}, {y}));
  synRecipeHandle recipe = nullptr;
  EXPECT_SYN_ERROR(synGraphCompile(&recipe, graph, "overlap", nullptr), synInvalidArgument,
                   "tensor 'y': it is written, and its strides put several elements at one place");
}

TEST_F(SynapseStrides, RecipeFilesKeepThem) {
  synTensor x = makeFloats("x", {2, 2}), y = makeFloats("y", {2, 2});
  setStrides(x, {8, 16});
  setStrides(y, {4, 12});
  ASSERT_SYN(addNode("neg_fwd_f32", {x}, {y}));
  const std::string path = ::testing::TempDir() + "synapse_strides.recipe";
  ASSERT_SYN(synRecipeSerialize(compile(), path.c_str()));
  synRecipeHandle recipe = nullptr;
  ASSERT_SYN(synRecipeDeSerialize(&recipe, path.c_str()));
  uint64_t xs = upload(counting(7)), ys = upload(Floats(5, 77));
  ASSERT_SYN(launch(recipe, {{"x", xs}, {"y", ys}}));
  EXPECT_EQ(floats(ys, 5), (Floats{0, -2, 77, -4, -6}));
}

class SynapseAddresses : public CompiledFixture {
 protected:
  /// Bytes at `from` of a copy of the memory.
  Floats at(uint64_t address, size_t count) {
    std::vector<uint8_t> bytes = read<uint8_t>(address, count * 4);
    Floats values(count);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  void put(uint64_t address, const Floats& values) {
    std::vector<uint8_t> bytes(values.size() * 4);
    std::memcpy(bytes.data(), values.data(), bytes.size());
    write(address, bytes);
  }
};

TEST_F(SynapseAddresses, NeedNotBeMultiplesOfTheElementSize) {
  synTensor a = makeFloats("a", {3, 2}), b = makeFloats("b", {2, 3}), y = makeFloats("y", {2, 2});
  synTensor z = makeFloats("z", {2, 2});
  ASSERT_SYN(addNode("gemm", {a, b}, {y}));
  ASSERT_SYN(addNode("neg_fwd_f32", {y}, {z}, "neg"));
  synRecipeHandle recipe = compile();
  uint64_t memory = allocate(4096);
  for (uint64_t odd : {1, 2, 3}) {
    write(memory, std::vector<uint8_t>(4096, 0xA5));
    uint64_t as = memory + odd, bs = memory + 512 + odd, ys = memory + 1024 + odd, zs = memory + 2048 + 4 - odd;
    put(as, {1, 2, 3, 4, 5, 6});
    put(bs, {1, 0, 0, 1, 1, 1});
    ASSERT_SYN(launch(recipe, {{"a", as}, {"b", bs}, {"y", ys}, {"z", zs}}));
    EXPECT_EQ(at(ys, 4), (Floats{4, 5, 10, 11}));
    EXPECT_EQ(at(zs, 4), (Floats{-4, -5, -10, -11}));
    EXPECT_EQ(read<uint8_t>(ys - 1, 1)[0], 0xA5) << "what lies before it";
    EXPECT_EQ(read<uint8_t>(ys + 16, 1)[0], 0xA5) << "what lies behind it";
  }
}

TEST_F(SynapseAddresses, OfTensorsThatAreUpdatedInPlace) {
  synTensor w = makeFloats("w", {4}, false), x = makeFloats("x", {4}), sum = makeFloats("sum", {4}, false);
  persist(graph, sum, persist(graph, w));
  ASSERT_SYN(addNode("add_fwd_f32", {w, x}, {sum}));
  synRecipeHandle recipe = compile();
  uint64_t memory = allocate(64), xs = upload({10, 20, 30, 40});
  put(memory + 3, {1, 2, 3, 4});
  for (int i = 0; i < 3; ++i) ASSERT_SYN(launch(recipe, {{"w", memory + 3}, {"sum", memory + 3}, {"x", xs}}));
  EXPECT_EQ(at(memory + 3, 4), (Floats{31, 62, 93, 124}));
}

TEST_F(SynapseAddresses, OffsetsInASectionNeedNotBeEither) {
  synSectionHandle section = nullptr;
  ASSERT_SYN(synSectionCreate(&section, 0, graph));
  synTensor x = makeFloats("x", {3}), y = makeFloats("y", {3}, false), z = makeFloats("z", {3}, false);
  persist(graph, y, section, 1);
  persist(graph, z, section, 13);
  ASSERT_SYN(addNode("neg_fwd_f32", {x}, {y}, "y"));
  ASSERT_SYN(addNode("abs_fwd_f32", {y}, {z}, "z"));
  synRecipeHandle recipe = compile();
  uint64_t xs = upload({1, 2, 3}), memory = allocate(64);
  ASSERT_SYN(launch(recipe, {{"x", xs}, {"y", memory + 1}, {"z", memory + 13}}));
  EXPECT_EQ(at(memory + 1, 6), (Floats{-1, -2, -3, 1, 2, 3}));
}

TEST_F(SynapseAddresses, EventsOfTensorsComeWithTheirBytes) {
  synTensor x = makeFloats("x", {64}), y = makeFloats("y", {64});
  ASSERT_SYN(synTensorSetExternal(y, true));
  ASSERT_SYN(addNode("neg_fwd_f32", {x}, {y}));
  synRecipeHandle recipe = compile();
  uint64_t xs = upload(counting(64)), memory = allocate(512);
  synEventHandle event = nullptr;
  ASSERT_SYN(synEventCreate(&event, device, 0));
  std::vector<synLaunchTensorInfo> infos = {info(recipe, "x", xs), info(recipe, "y", memory + 5)};
  ASSERT_SYN(synEventMapTensor(&event, 1, &infos[1], recipe));
  uint64_t bytes = 0, space = 0;
  ASSERT_SYN(synWorkspaceGetSize(&bytes, recipe));
  if (bytes) ASSERT_SYN(synDeviceMalloc(device, bytes, 0, 0, &space));
  ASSERT_SYN(synLaunchWithExternalEvents(stream, infos.data(), 2, space, recipe, &event, 1, 0));
  synStreamHandle other = nullptr;
  ASSERT_SYN(synStreamCreateGeneric(&other, device, 0));
  ASSERT_SYN(synStreamWaitEvent(other, event, 0));
  std::vector<uint8_t> got = read<uint8_t>(memory + 5, 256, other);
  Floats values(64);
  std::memcpy(values.data(), got.data(), 256);
  Floats wanted = counting(64);
  for (float& one : wanted) one = -one;
  EXPECT_EQ(values, wanted);
}

}  // namespace
}  // namespace hpu::testing
