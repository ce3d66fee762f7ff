// SPDX-License-Identifier: Apache-2.0
// Launches on a simulated device, with the tests' compiler: addresses and sections, names and ids, actual sizes, host
// values, events of external tensors, eager graphs.
#include "tests/unit/bindings/synapse/recipe/LaunchFixture.h"

#include <cstdio>
#include <numeric>
#include <thread>

namespace hpu::testing {
namespace {

using Values = std::vector<int32_t>;

class SynapseLaunch : public LaunchFixture {
 protected:
  static Values counting(size_t count, int32_t first = 0) {
    Values values(count);
    std::iota(values.begin(), values.end(), first);
    return values;
  }
  Values read(uint64_t address, size_t count, synStreamHandle from = nullptr) {
    return LaunchFixture::read<int32_t>(address, count, from);
  }
  synStatus launch(synRecipeHandle recipe, const std::vector<synLaunchTensorInfo>& infos, uint64_t workspace = 0,
                   uint32_t flags = 0) {
    return synLaunch(stream, infos.data(), static_cast<uint32_t>(infos.size()), workspace, recipe, flags);
  }
  /// x -> memcpy -> y, of `count` elements each.
  synRecipeHandle copyRecipe(synGraphHandle which, uint64_t count) {
    synTensor x = makeTensor(which, "x", {count}), y = makeTensor(which, "y", {count});
    persist(which, x);
    persist(which, y);
    EXPECT_EQ(addNode(which, "memcpy", {x}, {y}), synSuccess) << hpuSynLastError();
    return compile(which);
  }
};

TEST_F(SynapseLaunch, ByIdAndByName) {
  synRecipeHandle recipe = copyRecipe(graph, 100);
  uint64_t x = allocate(400), y = allocate(400);
  write(x, counting(100));
  std::vector<synLaunchTensorInfo> infos = {info(recipe, "x", x), info(recipe, "y", y)};
  ASSERT_EQ(launch(recipe, infos), synSuccess) << hpuSynLastError();
  EXPECT_EQ(read(y, 100), counting(100));
  write(x, counting(100, 7));
  infos[0].tensorId = infos[1].tensorId = 0xBAD;  // Not looked at.
  std::swap(infos[0], infos[1]);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(launch(recipe, infos, 0, SYN_FLAGS_TENSOR_NAME), synSuccess) << hpuSynLastError();
    EXPECT_EQ(read(y, 100), counting(100, 7));
    std::swap(infos[0], infos[1]);  // What the launch before found where no longer holds.
  }
  ASSERT_EQ(synLaunchExt(stream, reinterpret_cast<synLaunchTensorInfoExt*>(infos.data()), 2, 0, recipe,
                         SYN_FLAGS_TENSOR_NAME),
            synSuccess)
      << hpuSynLastError();
  EXPECT_SYN_ERROR(launch(recipe, infos, 0, 0), synInvalidArgument, "no tensor 2989");
  EXPECT_SYN_ERROR(launch(recipe, infos, 0, 8), synInvalidArgument, "unknown bits");
  infos[0].tensorName = nullptr;
  EXPECT_SYN_ERROR(launch(recipe, infos, 0, SYN_FLAGS_TENSOR_NAME), synInvalidArgument, "tensorName is null");
  EXPECT_EQ(synLaunch(stream, nullptr, 2, 0, recipe, 0), synInvalidArgument);
}

TEST_F(SynapseLaunch, MissingTensorsAreNamed) {
  synRecipeHandle recipe = copyRecipe(graph, 4);
  uint64_t memory = allocate(16);
  EXPECT_SYN_ERROR(launch(recipe, {}), synFailedSectionValidation, "'x', 'y'");
  EXPECT_SYN_ERROR(launch(recipe, {info(recipe, "x", memory), info(recipe, "y", 0)}), synFailedSectionValidation,
                   "'y' (address 0)");
  synLaunchTensorInfo typo = info(recipe, "Y", memory);
  EXPECT_EQ(typo.tensorId, TENSOR_INVALID_ID);
  EXPECT_SYN_ERROR(launch(recipe, {info(recipe, "x", memory), typo}, 0, SYN_FLAGS_TENSOR_NAME),
                   synFailedSectionValidation, "'Y' was given");
  EXPECT_SYN_ERROR(launch(recipe, {info(recipe, "x", memory), typo}), synFailedSectionValidation, "'y'");
}

TEST_F(SynapseLaunch, TensorsGivenTwiceMustAgree) {
  synRecipeHandle recipe = copyRecipe(graph, 4);
  uint64_t x = allocate(16), y = allocate(16);
  write(x, counting(4));
  EXPECT_EQ(launch(recipe, {info(recipe, "x", x), info(recipe, "y", y), info(recipe, "x", x)}), synSuccess);
  EXPECT_SYN_ERROR(launch(recipe, {info(recipe, "x", x), info(recipe, "y", y), info(recipe, "x", y)}),
                   synFailedSectionValidation, "tensor 'x' is given twice, by entries 0 and 2");
}

TEST_F(SynapseLaunch, SizesOfAFixedTensorAreCompared) {
  synTensor x = makeTensor("x", {5, 4}), y = makeTensor("y", {5, 4});
  persist(graph, x);
  persist(graph, y);
  ASSERT_EQ(addNode("memcpy", {x}, {y}), synSuccess);
  synRecipeHandle recipe = compile();
  uint64_t xs = allocate(400), ys = allocate(400);
  write(xs, counting(20));
  // None are given, or those of the recipe; what lies beyond the rank is not read.
  for (const std::vector<uint64_t>& sizes : std::vector<std::vector<uint64_t>>{{}, {5, 4}, {0, 0}, {5, 4, 9}}) {
    write(ys, Values(20, 0));
    ASSERT_EQ(launch(recipe, {info(recipe, "x", xs, sizes), info(recipe, "y", ys, sizes)}), synSuccess)
        << hpuSynLastError();
    EXPECT_EQ(read(ys, 20), counting(20));
  }
  write(ys, Values(20, 7));
  for (const std::vector<uint64_t>& sizes : std::vector<std::vector<uint64_t>>{{4, 4}, {9, 4}, {5, 0}, {77}, {4, 5}}) {
    EXPECT_SYN_ERROR(launch(recipe, {info(recipe, "x", xs, sizes), info(recipe, "y", ys)}), synFailedDynamicPatching,
                     "entry 0: tensor 'x': size ");
    EXPECT_SYN_ERROR(launch(recipe, {info(recipe, "x", xs), info(recipe, "y", ys, sizes)}), synFailedDynamicPatching,
                     "entry 1: tensor 'y': size ");
  }
  EXPECT_EQ(read(ys, 20), Values(20, 7));
}

TEST_F(SynapseLaunch, AddressesAreThoseOfTensorsNotSections) {
  synTensor x = makeTensor("x", {64}), y = makeTensor("y", {64});
  synSectionHandle section = persist(graph, x);
  persist(graph, y, section, 1024);
  ASSERT_EQ(addNode("memcpy", {x}, {y}), synSuccess);
  synRecipeHandle recipe = compile();
  uint64_t base = allocate(1024 + 256);
  write(base, counting(64));
  ASSERT_EQ(launch(recipe, {info(recipe, "x", base), info(recipe, "y", base + 1024)}), synSuccess) << hpuSynLastError();
  EXPECT_EQ(read(base + 1024, 64), counting(64));
  write(base, counting(64, 5));
  // One tensor of a section may leave its address to another.
  ASSERT_EQ(launch(recipe, {info(recipe, "x", base), info(recipe, "y", 0)}), synSuccess) << hpuSynLastError();
  EXPECT_EQ(read(base + 1024, 64), counting(64, 5));
  EXPECT_SYN_ERROR(launch(recipe, {info(recipe, "x", base), info(recipe, "y", base + 512)}), synFailedSectionValidation,
                   "tensors 'x' and 'y' are in one section");
  EXPECT_SYN_ERROR(launch(recipe, {info(recipe, "y", 16), info(recipe, "x", 0)}), synFailedSectionValidation,
                   "1024 bytes into");
}

TEST_F(SynapseLaunch, WorkspacesAreTheCallers) {
  synTensor x = makePersistent("x", {64}), y = makePersistent("y", {64}), between = makeTensor("between", {64});
  ASSERT_EQ(addNode("memcpy", {x}, {between}), synSuccess);
  ASSERT_EQ(addNode("memcpy", {between}, {y}), synSuccess);
  synRecipeHandle recipe = compile();
  uint64_t size = 0, xs = allocate(256), ys = allocate(256);
  ASSERT_EQ(synWorkspaceGetSize(&size, recipe), synSuccess);
  ASSERT_EQ(size, 256u);
  write(xs, counting(64));
  std::vector<synLaunchTensorInfo> infos = {info(recipe, "x", xs), info(recipe, "y", ys)};
  EXPECT_SYN_ERROR(launch(recipe, infos, 0), synInvalidArgument, "needs a workspace of 256 bytes");
  EXPECT_EQ(launch(recipe, infos, 0x1000), synInvalidArgument) << "no allocation is there";
  uint64_t workspace = allocate(size);
  ASSERT_EQ(launch(recipe, infos, workspace), synSuccess) << hpuSynLastError();
  EXPECT_EQ(read(ys, 64), counting(64));
  EXPECT_EQ(read(workspace, 64), counting(64)) << "what lies between is in the caller's memory";
}

TEST_F(SynapseLaunch, AddressesMustBeAllocated) {
  synRecipeHandle recipe = copyRecipe(graph, 64);
  uint64_t x = allocate(256), small = allocate(64);
  EXPECT_EQ(launch(recipe, {info(recipe, "x", x), info(recipe, "y", 0x42)}), synInvalidArgument);
  EXPECT_SYN_ERROR(launch(recipe, {info(recipe, "x", x), info(recipe, "y", small + 4096)}), synInvalidArgument, "'y'");
  ASSERT_EQ(synDeviceFree(device, x, 0), synSuccess);
  EXPECT_EQ(launch(recipe, {info(recipe, "x", x), info(recipe, "y", small)}), synInvalidArgument) << "freed";
}

TEST_F(SynapseLaunch, TypesMustFitTheTensors) {
  synTensor value = makeTensor("value", {1}, syn_type_int32, HOST_TO_DEVICE_TENSOR);
  int32_t fill = 5;
  ASSERT_EQ(synTensorSetHostPtr(value, &fill, 4, syn_type_int32, true), synSuccess);
  ASSERT_EQ(addNode("identity", {makePersistent("x", {4}), value}, {makePersistent("y", {4})}), synSuccess);
  synRecipeHandle recipe = compile(graph, "typed");
  uint64_t xs = allocate(16), ys = allocate(16);
  auto run = [&](int ofX, int ofValue) {
    std::vector<synLaunchTensorInfo> infos = {info(recipe, "x", xs), info(recipe, "y", ys), info(recipe, "value", 0)};
    infos[0].tensorType = static_cast<synTensorType>(ofX);
    infos[2].tensorType = static_cast<synTensorType>(ofValue);
    return launch(recipe, infos);
  };
  EXPECT_SYN_ERROR(run(HOST_TO_DEVICE_TENSOR, DATA_TENSOR), synInvalidArgument,
                   "entry 0: tensorType is HOST_TO_DEVICE_TENSOR, and tensor 'x' of recipe 'typed' is a DATA_TENSOR");
  EXPECT_SYN_ERROR(run(SHAPE_TENSOR, DATA_TENSOR), synInvalidArgument, "tensorType is SHAPE_TENSOR, and tensor 'x'");
  EXPECT_SYN_ERROR(run(77, DATA_TENSOR), synInvalidArgument, "synTensorType 77 (there is none), and tensor 'x'");
  EXPECT_SYN_ERROR(run(DATA_TENSOR, SHAPE_TENSOR), synInvalidArgument,
                   "'value' of recipe 'typed' is a HOST_TO_DEVICE_TENSOR");
  EXPECT_SYN_ERROR(run(DATA_TENSOR, DATA_TENSOR_DYNAMIC), synInvalidArgument, "'value'");
  EXPECT_SYN(run(DATA_TENSOR, DATA_TENSOR)) << "an entry that says nothing";
  EXPECT_SYN(run(DATA_TENSOR_DYNAMIC, HOST_TO_DEVICE_TENSOR));
  EXPECT_EQ(read(ys, 4), Values(4, 5));
}

TEST_F(SynapseLaunch, ConstSectionsAreUploadedByTheUser) {
  synSectionHandle section = nullptr;
  ASSERT_EQ(synSectionCreate(&section, 0, graph), synSuccess);
  ASSERT_EQ(synSectionSetConst(section, true), synSuccess);
  synTensor weights = makeTensor("weights", {4});
  persist(graph, weights, section);
  Values values = {4, 3, 2, 1};
  ASSERT_EQ(synTensorSetHostPtr(weights, values.data(), 16, syn_type_int32, true), synSuccess);
  ASSERT_EQ(addNode("memcpy", {weights}, {makePersistent("y", {4})}), synSuccess);
  synRecipeHandle recipe = compile();
  synRetrievedLaunchTensorInfo retrieved = {};
  retrieved.tensorId = idOf(recipe, "weights");
  ASSERT_EQ(synTensorRetrieveLaunchInfoById(recipe, 1, &retrieved), synSuccess);
  uint64_t size = 0, data = 0;
  ASSERT_EQ(synRecipeSectionGetProp(recipe, retrieved.tensorSectionId, SECTION_SIZE, &size), synSuccess);
  ASSERT_EQ(synRecipeSectionGetProp(recipe, retrieved.tensorSectionId, SECTION_DATA, &data), synSuccess);
  uint64_t onDevice = allocate(size), y = allocate(16);
  ASSERT_EQ(synMemCopyAsync(stream, data, size, onDevice, HOST_TO_DRAM), synSuccess);
  ASSERT_EQ(synStreamSynchronize(stream), synSuccess);
  ASSERT_EQ(synRecipeSectionHostBuffersClear(recipe, &retrieved.tensorSectionId, 1), synSuccess);
  ASSERT_EQ(launch(recipe, {info(recipe, "weights", onDevice), info(recipe, "y", y)}), synSuccess) << hpuSynLastError();
  EXPECT_EQ(read(y, 4), values);
}

TEST_F(SynapseLaunch, ConstantsWithoutASectionAreTheRecipes) {
  synTensor weights = makeTensor("weights", {4});
  Values values = {40, 30, 20, 10};
  ASSERT_EQ(synTensorSetHostPtr(weights, values.data(), 16, syn_type_int32, false), synSuccess);
  ASSERT_EQ(addNode("memcpy", {weights}, {makePersistent("y", {4})}), synSuccess);
  synRecipeHandle recipe = compile();
  values.clear();
  uint64_t y = allocate(16);
  ASSERT_EQ(launch(recipe, {info(recipe, "y", y)}), synSuccess) << hpuSynLastError();
  EXPECT_EQ(read(y, 4), (Values{40, 30, 20, 10}));
}

TEST_F(SynapseLaunch, ActualSizesAreBetweenLeastAndLargest) {
  synTensor x = makeTensor("x", {8}), y = makeTensor("y", {8});
  setSizes(x, {2}, synGeometryMinSizes);
  setSizes(y, {2}, synGeometryMinSizes);
  persist(graph, x);
  persist(graph, y);
  ASSERT_EQ(addNode("memcpy", {x}, {y}), synSuccess);
  synRecipeHandle recipe = compile();
  uint64_t xs = allocate(32), ys = allocate(32);
  write(xs, counting(8, 1));
  for (uint64_t size : {4, 2, 8, 4}) {
    write(ys, Values(8, 0));
    ASSERT_EQ(launch(recipe, {info(recipe, "x", xs, {size}), info(recipe, "y", ys, {size})}), synSuccess)
        << hpuSynLastError();
    Values wanted = counting(8, 1);
    std::fill(wanted.begin() + static_cast<ptrdiff_t>(size), wanted.end(), 0);
    EXPECT_EQ(read(ys, 8), wanted) << size;
  }
  // Sizes of results follow from those of inputs; none at all are the largest.
  write(ys, Values(8, 0));
  ASSERT_EQ(launch(recipe, {info(recipe, "x", xs, {3}), info(recipe, "y", ys)}), synSuccess) << hpuSynLastError();
  EXPECT_EQ(read(ys, 8), (Values{1, 2, 3, 0, 0, 0, 0, 0}));
  ASSERT_EQ(launch(recipe, {info(recipe, "x", xs), info(recipe, "y", ys)}), synSuccess) << hpuSynLastError();
  EXPECT_EQ(read(ys, 8), counting(8, 1));
  EXPECT_SYN_ERROR(launch(recipe, {info(recipe, "x", xs, {9}), info(recipe, "y", ys)}), synFailedDynamicPatching,
                   "tensor 'x': size 0 is 9, and the recipe was compiled for 2 to 8");
  EXPECT_EQ(launch(recipe, {info(recipe, "x", xs, {1}), info(recipe, "y", ys)}), synFailedDynamicPatching);
  EXPECT_SYN_ERROR(launch(recipe, {info(recipe, "x", xs, {4}), info(recipe, "y", ys, {5})}), synFailedDynamicPatching,
                   "another size");
}

TEST_F(SynapseLaunch, HostValuesAreReadAtTheLaunch) {
  synTensor x = makePersistent("x", {4}), y = makePersistent("y", {4});
  synTensor value = makeTensor("value", {1}, syn_type_int32, HOST_TO_DEVICE_TENSOR);
  int32_t first = 5;
  ASSERT_EQ(synTensorSetHostPtr(value, &first, 4, syn_type_int32, true), synSuccess);
  ASSERT_EQ(addNode("identity", {x, value}, {y}), synSuccess) << hpuSynLastError();
  synRecipeHandle recipe = compile();
  uint64_t xs = allocate(16), ys = allocate(16);
  void* host = nullptr;
  ASSERT_EQ(synHostMalloc(device, 4096, 0, &host), synSuccess);
  auto* values = static_cast<int32_t*>(host);
  auto run = [&](uint64_t address) {
    return launch(recipe, {info(recipe, "x", xs), info(recipe, "y", ys), info(recipe, "value", address)});
  };
  ASSERT_EQ(run(0), synSuccess) << hpuSynLastError();
  EXPECT_EQ(read(ys, 4), Values(4, 5)) << "the value that was compiled";
  for (int32_t wanted : {9, 5, 11, 9}) {
    values[7] = wanted;
    ASSERT_EQ(run(reinterpret_cast<uintptr_t>(values + 7)), synSuccess) << hpuSynLastError();
    values[7] = -1;
    EXPECT_EQ(read(ys, 4), Values(4, wanted));
  }
  // As for copies, any memory of the process will do.
  ASSERT_EQ(run(reinterpret_cast<uintptr_t>(&first)), synSuccess) << hpuSynLastError();
  EXPECT_EQ(read(ys, 4), Values(4, 5));
  EXPECT_SYN_ERROR(run(64), synMappingNotFound, "'value'");
  ASSERT_EQ(synHostFree(device, host, 0), synSuccess);
}

TEST_F(SynapseLaunch, ExternalTensorsSignal) {
  synTensor x = makePersistent("x", {64}), plain = makePersistent("plain", {64});
  synTensor early = makeTensor("early", {64});
  persist(graph, early);
  ASSERT_EQ(synTensorSetExternal(early, true), synSuccess);
  ASSERT_EQ(addNode("memcpy", {x}, {early}), synSuccess);
  ASSERT_EQ(addNode("memcpy", {x}, {plain}), synSuccess);
  synRecipeHandle recipe = compile();
  uint64_t xs = allocate(256), earlies = allocate(256), plains = allocate(256);
  write(xs, counting(64));
  synEventHandle event = nullptr;
  ASSERT_EQ(synEventCreate(&event, device, 0), synSuccess);
  std::vector<synLaunchTensorInfo> infos = {info(recipe, "x", xs), info(recipe, "early", earlies),
                                            info(recipe, "plain", plains)};
  auto withEvent = [&] { return synLaunchWithExternalEvents(stream, infos.data(), 3, 0, recipe, &event, 1, 0); };
  EXPECT_SYN_ERROR(withEvent(), synInvalidEventHandle, "synEventMapTensor");
  EXPECT_SYN_ERROR(synEventMapTensor(&event, 1, &infos[2], recipe), synInvalidArgument, "'plain' is not external");
  ASSERT_EQ(synEventMapTensor(&event, 1, &infos[1], recipe), synSuccess) << hpuSynLastError();
  ASSERT_EQ(withEvent(), synSuccess) << hpuSynLastError();
  // Another stream waits for the one tensor only.
  synStreamHandle other = nullptr;
  ASSERT_EQ(synStreamCreateGeneric(&other, device, 0), synSuccess);
  ASSERT_EQ(synStreamWaitEvent(other, event, 0), synSuccess) << hpuSynLastError();
  EXPECT_EQ(read(earlies, 64, other), counting(64));
  EXPECT_EQ(synEventSynchronize(event), synSuccess);
  ASSERT_EQ(synEventMapTensorExt(&event, 1, reinterpret_cast<synLaunchTensorInfoExt*>(&infos[1]), recipe), synSuccess);
  ASSERT_EQ(synLaunchWithExternalEventsExt(stream, reinterpret_cast<synLaunchTensorInfoExt*>(infos.data()), 3, 0,
                                           recipe, &event, 1, 0),
            synSuccess)
      << hpuSynLastError();
  EXPECT_EQ(read(plains, 64), counting(64));
}

TEST_F(SynapseLaunch, EagerGraphsAreMadeAndLaunchedInAHurry) {
  uint64_t x = allocate(400), y = allocate(400);
  for (int i = 0; i < 50; ++i) {
    synGraphHandle eager = nullptr;
    ASSERT_EQ(synGraphCreateEager(&eager, synDeviceGaudi2), synSuccess);
    synRecipeHandle recipe = copyRecipe(eager, 100);
    write(x, counting(100, i));
    ASSERT_EQ(launch(recipe, {info(recipe, "x", x), info(recipe, "y", y)}), synSuccess) << hpuSynLastError();
    ASSERT_EQ(synGraphDestroy(eager), synSuccess);
    ASSERT_EQ(synRecipeDestroy(recipe), synSuccess) << "the launch keeps what it needs";
    EXPECT_EQ(read(y, 100), counting(100, i));
  }
}

TEST_F(SynapseLaunch, RecipesFromFilesRun) {
  synRecipeHandle recipe = copyRecipe(graph, 16);
  std::string path = ::testing::TempDir() + "synapse_launch.recipe";
  ASSERT_EQ(synRecipeSerialize(recipe, path.c_str()), synSuccess) << hpuSynLastError();
  synRecipeHandle fromFile = nullptr;
  ASSERT_EQ(synRecipeDeSerialize(&fromFile, path.c_str()), synSuccess) << hpuSynLastError();
  std::remove(path.c_str());
  uint64_t x = allocate(64), y = allocate(64);
  write(x, counting(16));
  ASSERT_EQ(launch(fromFile, {info(fromFile, "x", x), info(fromFile, "y", y)}), synSuccess) << hpuSynLastError();
  EXPECT_EQ(read(y, 16), counting(16));
}

TEST_F(SynapseLaunch, RecipesOfAnotherTargetAreRefused) {
  synGraphHandle other = nullptr;
  ASSERT_EQ(synGraphCreate(&other, synDeviceGaudi), synSuccess);
  synRecipeHandle recipe = copyRecipe(other, 16);
  uint64_t x = allocate(64), y = allocate(64);
  EXPECT_SYN_ERROR(launch(recipe, {info(recipe, "x", x), info(recipe, "y", y)}), synResourceBadUsage, "gaudi1");
}

TEST_F(SynapseLaunch, RecipesOutliveDevices) {
  synRecipeHandle recipe = copyRecipe(graph, 16);
  for (int i = 0; i < 3; ++i) {
    uint64_t x = allocate(64), y = allocate(64);
    write(x, counting(16, i));
    ASSERT_EQ(launch(recipe, {info(recipe, "x", x), info(recipe, "y", y)}), synSuccess) << hpuSynLastError();
    EXPECT_EQ(read(y, 16), counting(16, i));
    ASSERT_EQ(synDeviceRelease(device), synSuccess) << hpuSynLastError();
    ASSERT_EQ(synDeviceAcquireByDeviceType(&device, synDeviceGaudi2), synSuccess) << hpuSynLastError();
    ASSERT_EQ(synStreamCreateGeneric(&stream, device, 0), synSuccess);
  }
}

TEST_F(SynapseLaunch, ThreadsShareARecipe) {
  synRecipeHandle recipe = copyRecipe(graph, 32);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      synStreamHandle mine = nullptr;
      ASSERT_EQ(synStreamCreateGeneric(&mine, device, 0), synSuccess);
      uint64_t x = allocate(128), y = allocate(128);
      for (int i = 0; i < 50; ++i) {
        Values values = counting(32, 1000 * t + i);
        ASSERT_EQ(synMemCopyAsync(mine, reinterpret_cast<uintptr_t>(values.data()), 128, x, HOST_TO_DRAM), synSuccess);
        synLaunchTensorInfo infos[] = {info(recipe, "x", x), info(recipe, "y", y)};
        ASSERT_EQ(synLaunch(mine, infos, 2, 0, recipe, i % 2 ? SYN_FLAGS_TENSOR_NAME : 0), synSuccess)
            << hpuSynLastError();
        EXPECT_EQ(read(y, 32, mine), values);
      }
      EXPECT_EQ(synStreamDestroy(mine), synSuccess);
    });
  for (auto& thread : threads) thread.join();
}

/// Up on one stream, the launch on another, back on a third: without an event.
TEST_F(SynapseLaunch, AreInOrderByAddressWhereAProgramWantsIt) {
  ASSERT_SYN(synDeviceRelease(device));
  ASSERT_SYN(synConfigurationSet("HPU_SYNAPSE_ADDRESS_ORDER", "1"));
  synStatus acquired = synDeviceAcquireByDeviceType(&device, synDeviceGaudi2);
  EXPECT_SYN(synConfigurationSet("HPU_SYNAPSE_ADDRESS_ORDER", ""));
  ASSERT_EQ(acquired, synSuccess);
  synStreamHandle up = nullptr, down = nullptr;
  for (synStreamHandle* one : {&stream, &up, &down}) ASSERT_SYN(synStreamCreateGeneric(one, device, 0));
  constexpr size_t kCount = 1 << 20;
  synRecipeHandle recipe = copyRecipe(graph, kCount);
  uint64_t x = allocate(4 * kCount), y = allocate(4 * kCount);
  std::vector<synLaunchTensorInfo> infos = {info(recipe, "x", x), info(recipe, "y", y)};
  Values values, back(kCount);
  for (int32_t round = 0; round < 20; ++round) {
    values = counting(kCount, 1000 * round);
    ASSERT_SYN(synMemCopyAsync(up, reinterpret_cast<uintptr_t>(values.data()), 4 * kCount, x, HOST_TO_DRAM));
    ASSERT_SYN(launch(recipe, infos));
    ASSERT_SYN(synMemCopyAsync(down, y, 4 * kCount, reinterpret_cast<uintptr_t>(back.data()), DRAM_TO_HOST));
    ASSERT_SYN(synStreamSynchronize(down));
    ASSERT_EQ(back, values) << round;
  }
}

}  // namespace
}  // namespace hpu::testing
