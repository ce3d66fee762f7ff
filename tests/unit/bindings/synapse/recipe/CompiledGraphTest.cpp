// SPDX-License-Identifier: Apache-2.0
// The C API with the real graph compiler: what the two must agree on (actual sizes, host values, const sections,
// sections that are shared, events, inferred shapes, errors). What nodes compute is the conformance tests' subject.
#include "tests/unit/bindings/synapse/recipe/LaunchFixture.h"

#include <cstdio>
#include <cstring>

namespace hpu::testing {
namespace {

class SynapseCompiled : public LaunchFixture {
 protected:
  synTensor makeFloats(const char* name, const std::vector<uint64_t>& sizes, bool persistent = true) {
    synTensor tensor = makeTensor(graph, name, sizes, syn_type_float);
    if (persistent) persist(graph, tensor);
    return tensor;
  }
  uint64_t upload(const Floats& values) {
    uint64_t address = allocate(values.size() * 4);
    write(address, values);
    return address;
  }
  Floats read(uint64_t address, size_t count, synStreamHandle from = nullptr) {
    return LaunchFixture::read<float>(address, count, from);
  }
  struct Given {
    const char* name;
    uint64_t address;
    std::vector<uint64_t> sizes = {};
  };
  synStatus launch(synRecipeHandle recipe, const std::vector<Given>& given, std::vector<synEventHandle> events = {}) {
    std::vector<synLaunchTensorInfo> infos;
    for (const Given& one : given) infos.push_back(info(recipe, one.name, one.address, one.sizes));
    uint64_t bytes = 0;
    EXPECT_EQ(synWorkspaceGetSize(&bytes, recipe), synSuccess);
    if (bytes > workspaceBytes) {
      EXPECT_EQ(synDeviceMalloc(device, bytes, 0, 0, &workspace), synSuccess);
      workspaceBytes = bytes;
    }
    return synLaunchWithExternalEvents(stream, infos.data(), static_cast<uint32_t>(infos.size()), workspace, recipe,
                                       events.data(), static_cast<uint32_t>(events.size()), SYN_FLAGS_TENSOR_NAME);
  }

  uint64_t workspace = 0, workspaceBytes = 0;
};

TEST_F(SynapseCompiled, ActualSizesChangeFromLaunchToLaunch) {
  synTensor x = makeFloats("x", {4, 8}), b = makeFloats("b", {4}), y = makeFloats("y", {4, 8});
  synTensor sum = makeFloats("sum", {4, 8}, false);
  for (synTensor tensor : {x, y, sum}) setSizes(tensor, {4, 1}, synGeometryMinSizes);
  ASSERT_EQ(addNode("add_fwd_f32", {x, b}, {sum}, "sum"), synSuccess) << hpuSynLastError();
  ASSERT_EQ(addNode("relu_fwd_f32", {sum}, {y}, "relu"), synSuccess) << hpuSynLastError();
  synRecipeHandle recipe = compile();
  Floats values(32);
  for (size_t i = 0; i < 32; ++i) values[i] = static_cast<float>(i) - 10;
  const Floats bias = {1, -2, 3, -4};
  uint64_t xs = upload(values), bs = upload(bias), ys = upload(Floats(32));
  for (uint64_t rows : {8, 3, 1, 3}) {
    write(ys, Floats(32, 77));
    ASSERT_EQ(launch(recipe, {{"x", xs, {4, rows}}, {"b", bs}, {"y", ys, {4, rows}}}), synSuccess) << hpuSynLastError();
    Floats got = read(ys, 32);
    for (size_t i = 0; i < 32; ++i)
      EXPECT_EQ(got[i], i < 4 * rows ? std::max(0.0f, values[i] + bias[i % 4]) : 77) << rows << " rows, element " << i;
  }
  EXPECT_SYN_ERROR(launch(recipe, {{"x", xs, {4, 9}}, {"b", bs}, {"y", ys}}), synFailedDynamicPatching, "size 1 is 9");
  EXPECT_SYN_ERROR(launch(recipe, {{"x", xs, {4, 3}}, {"b", bs}, {"y", ys, {4, 5}}}), synFailedDynamicPatching,
                   "output 0 (y)");
}

/// x {3, 1} times a matrix {2, 3} that `make` makes of constants; the recipe, and the const section's id.
class SynapseConstants : public SynapseCompiled {
 protected:
  synSectionHandle constSection() {
    synSectionHandle section = nullptr;
    EXPECT_SYN(synSectionCreate(&section, 0, graph));
    EXPECT_SYN(synSectionSetConst(section, true));
    return section;
  }
  synTensor constant(const char* name, const Sizes& sizes, Floats values, synSectionHandle section, uint64_t offset) {
    synTensor tensor = makeFloats(name, sizes, false);
    EXPECT_SYN(synTensorSetHostPtr(tensor, values.data(), values.size() * 4, syn_type_float, true));
    persist(graph, tensor, section, offset);
    return tensor;
  }
  static uint64_t property(synRecipeHandle recipe, synSectionId section, synSectionProp which) {
    uint64_t value = 0;
    EXPECT_SYN(synRecipeSectionGetProp(recipe, section, which, &value));
    return value;
  }
  /// What the section is for this recipe, uploaded.
  uint64_t uploadSection(synRecipeHandle recipe, const char* tensor, uint64_t* bytes) {
    synRetrievedLaunchTensorInfoExt found = {};
    found.tensorId = idOf(recipe, tensor);
    EXPECT_SYN(synTensorRetrieveLaunchInfoByIdExt(recipe, 1, &found));
    *bytes = property(recipe, found.tensorSectionId, SECTION_SIZE);
    const auto* data = reinterpret_cast<const uint8_t*>(property(recipe, found.tensorSectionId, SECTION_DATA));
    uint64_t address = allocate(*bytes);
    write(address, std::vector<uint8_t>(data, data + *bytes));
    return address;
  }
};

TEST_F(SynapseConstants, ACastOfAConstantFoldsAndItsSectionIsTheResults) {
  synTensor w = constant("w", {2, 3}, {1, 2, 3, 4, 5, 6.0078125f}, constSection(), 0);
  synTensor narrow = makeTensor(graph, "narrow", {2, 3}, syn_type_bf16);
  synTensor x = makeFloats("x", {3, 1}), y = makeFloats("y", {2, 1});
  ASSERT_SYN(addNode("cast_f32_to_bf16", {w}, {narrow}, "cast"));
  ASSERT_SYN(addNode("gemm", {x, narrow}, {y}, "product"));
  synRecipeHandle recipe = compile();
  uint64_t bytes = 0, ws = uploadSection(recipe, "w", &bytes);
  EXPECT_EQ(bytes, 12u);
  uint64_t xs = upload({1, 10, 100}), ys = allocate(8);
  ASSERT_SYN(launch(recipe, {{"x", xs}, {"w", ws}, {"y", ys}}));
  EXPECT_EQ(read(ys, 2), (Floats{531, 642}));  // 6.0078125 is 6 in bf16.
}

TEST_F(SynapseConstants, ASumOfConstantsFoldsIntoTheFirst) {
  synSectionHandle section = constSection();
  synTensor a = constant("a", {2, 3}, {1, 2, 3, 4, 5, 6}, section, 0), b = constant("b", {2}, {10, 20}, section, 24);
  synTensor sum = makeFloats("sum", {2, 3}, false), narrow = makeTensor(graph, "narrow", {2, 3}, syn_type_bf16);
  synTensor x = makeFloats("x", {3, 1}), y = makeFloats("y", {2, 1});
  ASSERT_SYN(addNode("cast_f32_to_bf16", {sum}, {narrow}, "cast"));  // Created before what it reads.
  ASSERT_SYN(addNode("add_f32", {a, b}, {sum}, "sum"));
  ASSERT_SYN(addNode("gemm", {x, narrow}, {y}, "product"));
  synRecipeHandle recipe = compile();
  uint64_t bytes = 0, ws = uploadSection(recipe, "a", &bytes);
  EXPECT_EQ(bytes, 12u);
  uint64_t xs = upload({1, 1, 1}), ys = allocate(8);
  ASSERT_SYN(launch(recipe, {{"x", xs}, {"a", ws}, {"y", ys}}));
  EXPECT_EQ(read(ys, 2), (Floats{39, 72}));
  // The tensor that went may still be named, where it was.
  ASSERT_SYN(launch(recipe, {{"x", xs}, {"a", ws}, {"b", ws + 24}, {"y", ys}}));
  EXPECT_EQ(read(ys, 2), (Floats{39, 72}));
}

TEST_F(SynapseConstants, ACastToIntegersFoldsAsTheDeviceCasts) {
  const Floats values = {0.5f, 1.5f, -2.5f, 300, -300, 7.4f};
  synSectionHandle section = constSection();
  synTensor w = constant("w", {6}, values, section, 0), bytes8 = makeTensor(graph, "bytes8", {6}, syn_type_int8);
  synTensor x = makeTensor(graph, "x", {6}, syn_type_int8), y = makeTensor(graph, "y", {6}, syn_type_int8);
  synTensor again = makeTensor(graph, "again", {6}, syn_type_int8), input = makeFloats("input", {6});
  for (synTensor tensor : {x, y, again}) persist(graph, tensor);
  ASSERT_SYN(addNode("cast_f32_to_i8", {w}, {bytes8}, "cast"));
  ASSERT_SYN(addNode("bitwise_or_i8", {bytes8, x}, {y}, "use"));
  ASSERT_SYN(addNode("cast_f32_to_i8", {input}, {again}, "on the device"));
  synRecipeHandle recipe = compile();
  uint64_t bytes = 0, ws = uploadSection(recipe, "w", &bytes), is = upload(values);
  EXPECT_EQ(bytes, 6u);
  uint64_t xs = allocate(6), ys = allocate(6), as = allocate(6);
  write(xs, std::vector<int8_t>(6));
  ASSERT_SYN(launch(recipe, {{"x", xs}, {"w", ws}, {"y", ys}, {"again", as}, {"input", is}}));
  EXPECT_EQ(LaunchFixture::read<int8_t>(ys, 6), (std::vector<int8_t>{0, 2, -2, 127, -128, 7}));
  EXPECT_EQ(LaunchFixture::read<int8_t>(as, 6), LaunchFixture::read<int8_t>(ys, 6));
}

TEST_F(SynapseConstants, AConstantThatIsReadElsewhereStays) {
  synTensor w = constant("w", {2, 3}, {1, 2, 3, 4, 5, 6}, constSection(), 0);
  synTensor narrow = makeTensor(graph, "narrow", {2, 3}, syn_type_bf16);
  synTensor x = makeFloats("x", {3, 1}), y = makeFloats("y", {2, 1}), copy = makeFloats("copy", {2, 3});
  ASSERT_SYN(addNode("cast_f32_to_bf16", {w}, {narrow}, "cast"));
  ASSERT_SYN(addNode("gemm", {x, narrow}, {y}, "product"));
  ASSERT_SYN(addNode("neg_f32", {w}, {copy}, "neg"));
  synRecipeHandle recipe = compile();
  uint64_t bytes = 0, ws = uploadSection(recipe, "w", &bytes);
  EXPECT_EQ(bytes, 24u);
  uint64_t xs = upload({1, 1, 1}), ys = allocate(8), cs = allocate(24);
  ASSERT_SYN(launch(recipe, {{"x", xs}, {"w", ws}, {"y", ys}, {"copy", cs}}));
  EXPECT_EQ(read(ys, 2), (Floats{9, 12}));
  EXPECT_EQ(read(cs, 6), (Floats{-1, -2, -3, -4, -5, -6}));
}

TEST_F(SynapseConstants, AResultThatIsSeenIsComputed) {
  synTensor w = constant("w", {2}, {1, 2}, constSection(), 0);
  synTensor y = makeTensor(graph, "y", {2}, syn_type_bf16);
  persist(graph, y);
  ASSERT_SYN(addNode("cast_f32_to_bf16", {w}, {y}, "cast"));
  synRecipeHandle recipe = compile();
  uint64_t bytes = 0, ws = uploadSection(recipe, "w", &bytes), ys = allocate(4);
  EXPECT_EQ(bytes, 8u);
  ASSERT_SYN(launch(recipe, {{"w", ws}, {"y", ys}}));
  EXPECT_EQ(LaunchFixture::read<uint16_t>(ys, 2), (std::vector<uint16_t>{0x3F80, 0x4000}));
}

TEST_F(SynapseConstants, ALargerSumDoesNotReachIntoItsNeighbour) {
  synSectionHandle section = constSection();
  synTensor a = constant("a", {2}, {1, 2}, section, 0), b = constant("b", {2, 3}, {1, 2, 3, 4, 5, 6}, section, 8);
  synTensor sum = makeFloats("sum", {2, 3}, false), x = makeFloats("x", {2, 3}), y = makeFloats("y", {2, 3});
  synTensor other = makeFloats("other", {2, 3});
  ASSERT_SYN(addNode("add_f32", {a, b}, {sum}, "sum"));
  ASSERT_SYN(addNode("add_f32", {sum, x}, {y}, "use"));
  ASSERT_SYN(addNode("neg_f32", {b}, {other}, "neg"));
  synRecipeHandle recipe = compile();
  uint64_t bytes = 0, ws = uploadSection(recipe, "a", &bytes);
  EXPECT_EQ(bytes, 32u);
  uint64_t xs = upload(Floats(6)), ys = allocate(24), os = allocate(24);
  ASSERT_SYN(launch(recipe, {{"x", xs}, {"a", ws}, {"b", ws + 8}, {"y", ys}, {"other", os}}));
  EXPECT_EQ(read(ys, 6), (Floats{2, 4, 4, 6, 6, 8}));
}

TEST_F(SynapseCompiled, AGraphWhoseResultsNobodySeesRuns) {
  synTensor x = makeFloats("x", {4}), y = makeFloats("y", {4}, false);
  ASSERT_SYN(addNode("relu_f32", {x}, {y}));
  synRecipeHandle recipe = compile();
  uint64_t xs = upload({1, 2, 3, 4});
  ASSERT_SYN(launch(recipe, {{"x", xs}}));
  EXPECT_SYN(synStreamSynchronize(stream));
  ASSERT_SYN(synRecipeSerialize(recipe, "unseen.recipe"));
  synRecipeHandle again = nullptr;
  ASSERT_SYN(synRecipeDeSerialize(&again, "unseen.recipe"));
  std::remove("unseen.recipe");
  ASSERT_SYN(launch(again, {{"x", xs}}));
  EXPECT_SYN(synStreamSynchronize(stream));
}

TEST_F(SynapseCompiled, NodesThatOnlyOrderOthersNeedNoOperands) {
  synTensor x = makeFloats("x", {2}), y = makeFloats("y", {2}), z = makeFloats("z", {2});
  synNodeId ids[4] = {};
  auto add = [&](int i, const char* guid, std::vector<synTensor> in, std::vector<synTensor> out, const char* name) {
    return synNodeCreateWithId(graph, in.data(), out.data(), static_cast<uint32_t>(in.size()),
                               static_cast<uint32_t>(out.size()), nullptr, 0, guid, name, &ids[i], nullptr, nullptr);
  };
  ASSERT_SYN(add(0, "relu_f32", {x}, {y}, "first"));
  ASSERT_SYN(add(1, "nop", {}, {}, "fence"));
  ASSERT_SYN(add(2, "wait", {}, {}, "pause"));
  ASSERT_SYN(add(3, "neg_f32", {y}, {z}, "last"));
  for (int i = 0; i < 3; ++i) ASSERT_SYN(synNodeDependencySet(graph, &ids[i], &ids[i + 1], 1, 1));
  synRecipeHandle recipe = compile();
  uint64_t xs = upload({-1, 2}), ys = allocate(8), zs = allocate(8);
  ASSERT_SYN(launch(recipe, {{"x", xs}, {"y", ys}, {"z", zs}}));
  EXPECT_EQ(read(zs, 2), (Floats{0, -2}));
}

TEST_F(SynapseCompiled, ConstSectionsAreInputsOfTheRecipe) {
  synSectionHandle section = nullptr;
  ASSERT_EQ(synSectionCreate(&section, 0, graph), synSuccess);
  ASSERT_EQ(synSectionSetConst(section, true), synSuccess);
  synTensor w = makeFloats("w", {2, 3}, false), x = makeFloats("x", {3, 1}), y = makeFloats("y", {2, 1});
  persist(graph, w, section);
  Floats weights = {1, 2, 3, 4, 5, 6};
  ASSERT_EQ(synTensorSetHostPtr(w, weights.data(), 24, syn_type_float, true), synSuccess);
  ASSERT_EQ(addNode("gemm", {x, w}, {y}), synSuccess) << hpuSynLastError();
  synRecipeHandle recipe = compile();
  EXPECT_SYN_ERROR(launch(recipe, {{"x", upload({1, 10, 100})}, {"y", upload({0, 0})}}), synFailedSectionValidation,
                   "'w'");
  uint64_t data = 0, ys = upload({0, 0});
  TensorMetadataInfo info = {};
  info.tensorName = "w";
  ASSERT_EQ(synTensorRetrieveInfosByName(recipe, 1, &info), synSuccess);
  ASSERT_EQ(synRecipeSectionGetProp(recipe, info.sectionId, SECTION_DATA, &data), synSuccess) << hpuSynLastError();
  const auto* host = reinterpret_cast<const float*>(data);
  ASSERT_EQ(launch(recipe, {{"x", upload({1, 10, 100})}, {"w", upload(Floats(host, host + 6))}, {"y", ys}}), synSuccess)
      << hpuSynLastError();
  EXPECT_EQ(read(ys, 2), (Floats{531, 642}));
}

TEST_F(SynapseCompiled, HostValuesSayWhatAViewTakes) {
  synTensor x = makeFloats("x", {8}), y = makeFloats("y", {3});
  synDynamicStridedDmaH2dTensor view = {};
  view.num_strides = 1;
  view.offset = 1;
  view.strides[0] = 2;
  constexpr uint64_t kWords = sizeof(view) / 4;
  synTensor host = makeTensor(graph, "view", {kWords}, syn_type_uint32, HOST_TO_DEVICE_TENSOR);
  ASSERT_EQ(synTensorSetHostPtr(host, &view, sizeof(view), syn_type_uint32, true), synSuccess);
  ASSERT_EQ(addNode("strided_view", {x, host}, {y}), synSuccess) << hpuSynLastError();
  synRecipeHandle recipe = compile();
  ASSERT_NE(recipe, nullptr);
  uint64_t xs = upload({0, 1, 2, 3, 4, 5, 6, 7}), ys = upload({0, 0, 0});
  ASSERT_EQ(launch(recipe, {{"x", xs}, {"y", ys}, {"view", 0}}), synSuccess) << hpuSynLastError();
  EXPECT_EQ(read(ys, 3), (Floats{1, 3, 5}));
  void* pinned = nullptr;
  ASSERT_EQ(synHostMalloc(device, sizeof(view), 0, &pinned), synSuccess);
  view.offset = 0;
  view.strides[0] = 3;
  std::memcpy(pinned, &view, sizeof(view));
  ASSERT_EQ(launch(recipe, {{"x", xs}, {"y", ys}, {"view", reinterpret_cast<uintptr_t>(pinned)}}), synSuccess)
      << hpuSynLastError();
  EXPECT_EQ(read(ys, 3), (Floats{0, 3, 6}));
  // A view that leaves the tensor is refused, and the recipe goes on working.
  view.strides[0] = 4;
  std::memcpy(pinned, &view, sizeof(view));
  EXPECT_EQ(launch(recipe, {{"x", xs}, {"y", ys}, {"view", reinterpret_cast<uintptr_t>(pinned)}}),
            synFailedDynamicPatching);
  ASSERT_EQ(launch(recipe, {{"x", xs}, {"y", ys}, {"view", 0}}), synSuccess) << hpuSynLastError();
  EXPECT_EQ(read(ys, 3), (Floats{1, 3, 5}));
}

TEST_F(SynapseCompiled, TensorsOfOneSectionShareItsMemory) {
  // w += x, in place, and y reads the new value at the same place.
  synTensor w = makeFloats("w", {4}, false), x = makeFloats("x", {4}), sum = makeFloats("sum", {4}, false);
  synTensor y = makeFloats("y", {4});
  synSectionHandle section = persist(graph, w);
  persist(graph, sum, section);
  ASSERT_EQ(addNode("add_fwd_f32", {w, x}, {sum}, "sum"), synSuccess) << hpuSynLastError();
  ASSERT_EQ(addNode("neg_fwd_f32", {sum}, {y}, "negated"), synSuccess) << hpuSynLastError();
  synRecipeHandle recipe = compile();
  uint64_t ws = upload({1, 2, 3, 4}), xs = upload({10, 20, 30, 40}), ys = upload(Floats(4));
  for (int i = 1; i <= 3; ++i) {
    ASSERT_EQ(launch(recipe, {{"w", ws}, {"sum", ws}, {"x", xs}, {"y", ys}}), synSuccess) << hpuSynLastError();
    float k = static_cast<float>(i);
    EXPECT_EQ(read(ws, 4), (Floats{1 + 10 * k, 2 + 20 * k, 3 + 30 * k, 4 + 40 * k}));
    EXPECT_EQ(read(ys, 1)[0], -(1 + 10 * k));
  }
}

TEST_F(SynapseCompiled, ExternalTensorsSignalBeforeTheEnd) {
  synTensor x = makeFloats("x", {256, 256}), early = makeFloats("early", {256, 256}),
            last = makeFloats("last", {256, 256});
  ASSERT_EQ(synTensorSetExternal(early, true), synSuccess);
  ASSERT_EQ(synTensorSetExternal(last, true), synSuccess);
  ASSERT_EQ(addNode("relu_fwd_f32", {x}, {early}, "relu"), synSuccess) << hpuSynLastError();
  synTensor from = early;
  for (int i = 0; i < 4; ++i) {
    synTensor to = i == 3 ? last : makeFloats(("m" + std::to_string(i)).c_str(), {256, 256}, false);
    ASSERT_EQ(addNode("gemm", {from, x}, {to}, ("gemm" + std::to_string(i)).c_str()), synSuccess) << hpuSynLastError();
    from = to;
  }
  synRecipeHandle recipe = compile();
  uint64_t order[2] = {};
  ASSERT_EQ(synTensorExtExtractExecutionOrder(recipe, 2, order), synSuccess) << hpuSynLastError();
  const char* names[] = {"early", "last"};
  uint64_t ids[2] = {};
  ASSERT_EQ(synTensorRetrieveIds(recipe, names, ids, 2), synSuccess);
  EXPECT_EQ(order[0], ids[0]);
  EXPECT_EQ(order[1], ids[1]);

  synEventHandle earlyDone = nullptr, done = nullptr, start = nullptr;
  for (synEventHandle* event : {&earlyDone, &done, &start})
    ASSERT_EQ(synEventCreate(event, device, EVENT_COLLECT_TIME), synSuccess);
  synLaunchTensorInfo info = {};
  info.tensorName = "early";
  ASSERT_EQ(synEventMapTensor(&earlyDone, 1, &info, recipe), synSuccess) << hpuSynLastError();
  uint64_t xs = upload(Floats(65536, 0.001f)), earlies = upload(Floats(65536)), lasts = upload(Floats(65536));
  ASSERT_EQ(synEventRecord(start, stream), synSuccess);
  ASSERT_EQ(launch(recipe, {{"x", xs}, {"early", earlies}, {"last", lasts}}, {earlyDone}), synSuccess)
      << hpuSynLastError();
  ASSERT_EQ(synEventRecord(done, stream), synSuccess);
  ASSERT_EQ(synStreamSynchronize(stream), synSuccess);
  uint64_t toEarly = 0, toDone = 0;
  ASSERT_EQ(synEventElapsedTime(&toEarly, start, earlyDone), synSuccess) << hpuSynLastError();
  ASSERT_EQ(synEventElapsedTime(&toDone, start, done), synSuccess) << hpuSynLastError();
  EXPECT_LT(toEarly, toDone) << "the first tensor is written before the launch ends, in device time";
}

TEST_F(SynapseCompiled, DuplicatesOfEagerGraphsInferTheirShapes) {
  synGraphHandle eager = nullptr, copy = nullptr;
  ASSERT_EQ(synGraphCreateEager(&eager, synDeviceGaudi2), synSuccess);
  synTensor x = makeTensor(eager, "x", {4, 2}, syn_type_float), y = makeTensor(eager, "y", {4, 2}, syn_type_float);
  synTensor middle = makeTensor(eager, "middle", {4, 2}, syn_type_float);
  persist(eager, x);
  persist(eager, y);
  ASSERT_EQ(addNode(eager, "abs_fwd_f32", {x}, {middle}), synSuccess) << hpuSynLastError();
  ASSERT_EQ(addNode(eager, "neg_fwd_f32", {middle}, {y}), synSuccess) << hpuSynLastError();
  uint32_t numTensors = 3, numNodes = 2;
  std::vector<synTensorHandleMap> tensors(3);
  std::vector<synNodeHandleMap> nodes(2);
  ASSERT_EQ(synGraphDuplicate(eager, &copy, tensors.data(), &numTensors, nodes.data(), &numNodes), synSuccess);
  for (const auto& entry : tensors)
    if (entry.origHandle != middle) setSizes(entry.newHandle, {4, 5}, synGeometryMaxSizes);
  ASSERT_EQ(synGraphInferShapes(copy), synSuccess) << hpuSynLastError();
  synRecipeHandle recipe = compile(copy);
  Floats values(20);
  for (size_t i = 0; i < 20; ++i) values[i] = static_cast<float>(i) - 7;
  uint64_t xs = upload(values), ys = upload(Floats(20));
  ASSERT_EQ(launch(recipe, {{"x", xs}, {"y", ys}}), synSuccess) << hpuSynLastError();
  Floats got = read(ys, 20);
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(got[i], -std::abs(values[i]));
}

TEST_F(SynapseCompiled, FilesRunWhereTheyAreRead) {
  synTensor x = makeFloats("x", {16}), y = makeFloats("y", {16});
  ASSERT_EQ(addNode("exp_fwd_f32", {x}, {y}), synSuccess) << hpuSynLastError();
  synRecipeHandle recipe = compile(), read2 = nullptr;
  std::string path = ::testing::TempDir() + "synapse_compiled.recipe";
  ASSERT_EQ(synRecipeSerialize(recipe, path.c_str()), synSuccess) << hpuSynLastError();
  ASSERT_EQ(synRecipeDeSerialize(&read2, path.c_str()), synSuccess) << hpuSynLastError();
  std::remove(path.c_str());
  uint64_t xs = upload(Floats(16, 0)), first = upload(Floats(16)), second = upload(Floats(16));
  ASSERT_EQ(launch(recipe, {{"x", xs}, {"y", first}}), synSuccess) << hpuSynLastError();
  ASSERT_EQ(launch(read2, {{"x", xs}, {"y", second}}), synSuccess) << hpuSynLastError();
  EXPECT_EQ(read(first, 16), Floats(16, 1));
  EXPECT_EQ(read(second, 16), Floats(16, 1));
}

TEST_F(SynapseCompiled, ErrorsNameEveryFaultyNode) {
  synTensor a = makeFloats("a", {4, 3}), b = makeFloats("b", {5, 5}), c = makeFloats("c", {5, 3});
  synTensor d = makeFloats("d", {7}), e = makeFloats("e", {8});
  ASSERT_EQ(addNode("linear_fwd_f32", {a, b}, {c}, "wrong product"), synSuccess) << hpuSynLastError();
  ASSERT_EQ(addNode("mish_fwd_f32", {d}, {e}, "wrong size"), synSuccess) << hpuSynLastError();
  synRecipeHandle recipe = nullptr;
  EXPECT_SYN_ERROR(synGraphCompile(&recipe, graph, "faulty", nullptr), synInvalidArgument, "wrong product");
  EXPECT_THAT(std::string(hpuSynLastError()), HasSubstr("wrong size"));
}

}  // namespace
}  // namespace hpu::testing
