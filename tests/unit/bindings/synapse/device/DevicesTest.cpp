// SPDX-License-Identifier: Apache-2.0
// Counting, acquiring, releasing and describing devices. Each test process has a node of its own, so counts are exact.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

#include "tests/unit/bindings/synapse/DeviceFixture.h"

namespace synapse_test {
namespace {

using testing::HasSubstr;

class Devices : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_SYN(synConfigurationSet("HPU_SIM_HBM_BYTES", "64M"));
    ASSERT_SYN(synConfigurationSet("HPU_ACQUIRE_TIMEOUT_MS", "0"));
    ASSERT_SYN(synInitialize());
  }
  void TearDown() override {
    synDestroy();
    EXPECT_SYN(synConfigurationSet("HPU_SIM_HBM_BYTES", ""));
    EXPECT_SYN(synConfigurationSet("HPU_NODE_TARGET", ""));
  }
};

TEST_F(Devices, ANodeHasEightOfAnyType) {
  uint32_t count = 0;
  ASSERT_SYN(synDeviceGetCount(&count));
  EXPECT_EQ(count, 8u);
  for (synDeviceType type : {synDeviceGaudi, synDeviceGaudi2, synDeviceGaudi3}) {
    ASSERT_SYN(synDeviceGetCountByDeviceType(&count, type));
    EXPECT_EQ(count, 8u) << "free devices become what their owner asks for";
  }
  ASSERT_SYN(synDeviceGetCountByDeviceType(&count, synDeviceEmulator));
  EXPECT_EQ(count, 0u);
  uint32_t counts[synDeviceTypeSize];
  std::fill(std::begin(counts), std::end(counts), 77);
  ASSERT_SYN(synDeviceCount(counts));
  EXPECT_THAT(counts, testing::ElementsAre(0, 0, 8, 0, 8, 8, 0, 0));
}

TEST_F(Devices, CountsByTypeFollowWhatIsOwned) {
  synDeviceId device = 0;
  ASSERT_SYN(synDeviceAcquireByDeviceType(&device, synDeviceGaudi3));
  uint32_t counts[synDeviceTypeSize];
  ASSERT_SYN(synDeviceCount(counts));
  EXPECT_EQ(counts[synDeviceGaudi2], 7u);
  EXPECT_EQ(counts[synDeviceGaudi3], 8u);
  ASSERT_SYN(synDeviceRelease(device));
  ASSERT_SYN(synConfigurationSet("HPU_NODE_TARGET", "gaudi1"));
  ASSERT_SYN(synDeviceCount(counts));
  EXPECT_EQ(counts[synDeviceGaudi], 8u);
  EXPECT_EQ(counts[synDeviceGaudi2], 0u);
}

TEST_F(Devices, CountsOfNothingAreErrors) {
  EXPECT_SYN_ERROR(synDeviceGetCount(nullptr), synInvalidArgument, "pCount is null");
  EXPECT_SYN_ERROR(synDeviceCount(nullptr), synInvalidArgument, "count is null");
  EXPECT_SYN_ERROR(synDeviceGetCountByDeviceType(nullptr, synDeviceGaudi2), synInvalidArgument, "null");
  uint32_t count = 5;
  EXPECT_SYN_ERROR(synDeviceGetCountByDeviceType(&count, synDeviceTypeInvalid), synInvalidArgument, "7");
  EXPECT_SYN_ERROR(synDeviceGetCountByDeviceType(&count, static_cast<synDeviceType>(-3)), synInvalidArgument, "-3");
  EXPECT_EQ(count, 5u);
}

TEST_F(Devices, ModuleIdsAreEightDifferentOnes) {
  uint32_t modules[16], size = 16;
  ASSERT_SYN(synDeviceGetModuleIDs(modules, &size));
  EXPECT_EQ(size, 8u);
  EXPECT_EQ(std::set<uint32_t>(modules, modules + 8), (std::set<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  size = 3;
  EXPECT_SYN_ERROR(synDeviceGetModuleIDs(modules, &size), synInvalidArgument, "8 devices and the array 3 places");
  EXPECT_SYN_ERROR(synDeviceGetModuleIDs(nullptr, &size), synInvalidArgument, "null");
  EXPECT_SYN_ERROR(synDeviceGetModuleIDs(modules, nullptr), synInvalidArgument, "null");
}

TEST_F(Devices, OneProcessHoldsManyAtOnce) {
  std::set<std::string> addresses;
  std::vector<synDeviceId> devices;
  for (synDeviceType type : {synDeviceGaudi, synDeviceGaudi2, synDeviceGaudi3}) {
    synDeviceId device = SYN_INVALID_DEVICE_ID;
    ASSERT_SYN(synDeviceAcquireByDeviceType(&device, type));
    EXPECT_EQ(device, devices.size()) << "the first device is 0, as in a process with one";
    devices.push_back(device);
    synDeviceInfo info;
    ASSERT_SYN(synDeviceGetInfo(device, &info));
    EXPECT_EQ(info.deviceType, type);
    char pci[32];
    ASSERT_SYN(synDeviceGetPCIBusId(pci, sizeof(pci), device));
    EXPECT_TRUE(addresses.insert(pci).second) << pci;
  }
  ASSERT_SYN(synDeviceRelease(devices[1]));
  synDeviceId again = SYN_INVALID_DEVICE_ID;
  ASSERT_SYN(synDeviceAcquireByDeviceType(&again, synDeviceGaudi2));
  EXPECT_EQ(again, devices[1]) << "a free id is used again";
}

/// Programs pass their rank, a module id, or what synDeviceGetInfo said.
TEST_F(Devices, OfAProcessWithOneEveryIdIsItsId) {
  synDeviceId device = SYN_INVALID_DEVICE_ID;
  ASSERT_SYN(synDeviceAcquireByModuleId(&device, 5));
  for (synDeviceId id : {0u, 5u, 7u, 1u << 20, SYN_INVALID_DEVICE_ID}) {
    SCOPED_TRACE(id);
    synDeviceInfo info;
    ASSERT_SYN(synDeviceGetInfo(id, &info));
    EXPECT_EQ(info.deviceId, device);
    uint64_t memory = 0, free = 0, total = 0, value = 0;
    void* host = nullptr;
    int local = 0;
    synStreamHandle stream = nullptr;
    synEventHandle event = nullptr;
    char text[64];
    const synDeviceAttribute size = DEVICE_ATTRIBUTE_DRAM_SIZE;
    ASSERT_SYN(synDeviceMalloc(id, 4096, 0, 0, &memory));
    EXPECT_SYN(synDeviceGetMemoryInfo(id, &free, &total));
    EXPECT_EQ(total - free, 4096u);
    ASSERT_SYN(synHostMalloc(id, 4096, 0, &host));
    ASSERT_SYN(synHostMap(id, sizeof(local), &local));
    ASSERT_SYN(synStreamCreateGeneric(&stream, id, 0));
    ASSERT_SYN(synEventCreate(&event, id, EVENT_COLLECT_TIME));
    EXPECT_SYN(synMemCopyAsync(stream, address(host), 4096, memory, HOST_TO_DRAM));
    EXPECT_SYN(synEventRecord(event, stream));
    EXPECT_SYN(synDeviceSynchronize(id));
    EXPECT_SYN(synStreamSetAffinity(id, stream, 1));
    EXPECT_SYN(synStreamGetAffinity(id, stream, &value));
    EXPECT_SYN(synDeviceGetAffinityMaskRange(id, &value));
    EXPECT_SYN(synDeviceGetNextStreamAffinity(id, &value));
    EXPECT_SYN(synDeviceGetName(text, sizeof(text), id));
    EXPECT_SYN(synDeviceGetPCIBusId(text, sizeof(text), id));
    EXPECT_SYN(synDeviceGetAttribute(&value, &size, 1, id));
    EXPECT_SYN(synProfilerStart(synTraceAll, id));
    EXPECT_SYN(synProfilerStop(synTraceAll, id));
    EXPECT_SYN(synHostUnmap(id, &local));
    EXPECT_SYN(synHostFree(id, host, 0));
    EXPECT_SYN(synDeviceFree(id, memory, 0));
    EXPECT_SYN(synStreamDestroy(stream));
    EXPECT_SYN(synEventDestroy(event));
  }
  synDeviceId second = SYN_INVALID_DEVICE_ID;
  ASSERT_SYN(synDeviceAcquire(&second, nullptr));
  EXPECT_SYN_ERROR(synDeviceSynchronize(7), synInvalidArgument, "it has 0, 1");
  EXPECT_SYN_ERROR(synDeviceRelease(7), synInvalidArgument, "has not acquired a device 7");
  ASSERT_SYN(synDeviceRelease(device));
  EXPECT_SYN(synDeviceRelease(7)) << "the one that is left";
  EXPECT_SYN_ERROR(synDeviceRelease(second), synInvalidArgument, "acquire one first");
}

TEST_F(Devices, TheirDescriptorIsOpenAndTheirs) {
  synDeviceId device = 0, other = 0;
  ASSERT_SYN(synDeviceAcquire(&device, nullptr));
  ASSERT_SYN(synDeviceAcquire(&other, nullptr));
  synDeviceInfo info, second;
  synDeviceInfoV2 v2;
  ASSERT_SYN(synDeviceGetInfo(device, &info));
  ASSERT_SYN(synDeviceGetInfo(other, &second));
  ASSERT_SYN(synDeviceGetInfoV2(device, &v2));
  EXPECT_EQ(info.deviceId, device);
  EXPECT_EQ(second.deviceId, other);
  EXPECT_EQ(v2.deviceId, device);
  EXPECT_LT(info.fd, 1024u);
  EXPECT_EQ(v2.fd, info.fd);
  EXPECT_NE(info.fd, second.fd);
  EXPECT_NE(fcntl(static_cast<int>(info.fd), F_GETFD), -1);
  ASSERT_SYN(synDeviceRelease(device));
  EXPECT_EQ(fcntl(static_cast<int>(info.fd), F_GETFD), -1) << "it ends with the device";
  // A program that closes it, and opens something else there, keeps that.
  ASSERT_EQ(close(static_cast<int>(second.fd)), 0);
  int mine = open("/dev/null", O_RDONLY | O_CLOEXEC);
  int at = fcntl(mine, F_DUPFD_CLOEXEC, static_cast<int>(second.fd));
  ASSERT_SYN(synDeviceRelease(other));
  EXPECT_NE(fcntl(at, F_GETFD), -1);
  close(at);
  close(mine);
}

/// What a failed call was to give is null, so that programs that go by the handle see the failure, too.
TEST_F(Devices, AFailedCreateStoresNull) {
  auto was = [](uint64_t number) { return reinterpret_cast<void*>(static_cast<uintptr_t>(number)); };
  for (bool up : {true, false}) {
    SCOPED_TRACE(up);
    if (!up) {
      ASSERT_SYN(synDestroy());
    }
    auto stream = static_cast<synStreamHandle>(was(16)), priority = stream;
    auto event = static_cast<synEventHandle>(was(16));
    auto graph = static_cast<synGraphHandle>(was(16)), eager = graph, copy = graph;
    auto tensor = static_cast<synTensor>(was(16)), old = tensor, constant = tensor;
    auto section = static_cast<synSectionHandle>(was(16));
    auto recipe = static_cast<synRecipeHandle>(was(16)), compiled = recipe;
    uint64_t memory = 16;
    void* host = was(16);
    uint32_t count = 0;
    EXPECT_NE(synStreamCreateGeneric(&stream, 0, 0), synSuccess);
    EXPECT_NE(hpuSynStreamCreateWithPriority(&priority, 0, 1), synSuccess);
    EXPECT_NE(synEventCreate(&event, 0, 0), synSuccess);
    EXPECT_NE(synDeviceMalloc(0, 64, 0, 0, &memory), synSuccess);
    EXPECT_NE(synHostMalloc(0, 64, 0, &host), synSuccess);
    EXPECT_NE(synGraphCreate(&graph, synDeviceTypeInvalid), synSuccess);
    EXPECT_NE(synGraphCreateEager(&eager, synDeviceTypeInvalid), synSuccess);
    EXPECT_NE(synGraphDuplicate(nullptr, &copy, nullptr, &count, nullptr, &count), synSuccess);
    EXPECT_NE(synTensorHandleCreate(&tensor, nullptr, DATA_TENSOR, "t"), synSuccess);
    EXPECT_NE(synTensorCreate(&old, nullptr, nullptr, 0), synSuccess);
    EXPECT_NE(synConstTensorCreate(&constant, nullptr), synSuccess);
    EXPECT_NE(synSectionCreate(&section, 0, nullptr), synSuccess);
    EXPECT_NE(synRecipeDeSerialize(&recipe, "/nonexistent/file"), synSuccess);
    EXPECT_NE(synGraphCompile(&compiled, nullptr, "r", nullptr), synSuccess);
    EXPECT_EQ(stream, nullptr);
    EXPECT_EQ(priority, nullptr);
    EXPECT_EQ(event, nullptr);
    EXPECT_EQ(memory, 0u);
    EXPECT_EQ(host, nullptr);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(eager, nullptr);
    EXPECT_EQ(copy, nullptr);
    EXPECT_EQ(tensor, nullptr);
    EXPECT_EQ(old, nullptr);
    EXPECT_EQ(constant, nullptr);
    EXPECT_EQ(section, nullptr);
    EXPECT_EQ(recipe, nullptr);
    EXPECT_EQ(compiled, nullptr);
  }
}

TEST_F(Devices, ANodeHasNoNinth) {
  synDeviceId device = 0;
  for (int i = 0; i < 8; ++i) ASSERT_SYN(synDeviceAcquireByDeviceType(&device, synDeviceGaudi2));
  device = 99;
  EXPECT_EQ(synDeviceAcquireByDeviceType(&device, synDeviceGaudi2), synNoDeviceFound);
  EXPECT_EQ(device, 99u);
  EXPECT_EQ(synDeviceAcquire(&device, nullptr), synNoDeviceFound);
}

TEST_F(Devices, AreAcquiredByModuleAndByPciAddress) {
  uint32_t modules[8], size = 8;
  ASSERT_SYN(synDeviceGetModuleIDs(modules, &size));
  synDeviceId byModule = 0, byPci = 0;
  ASSERT_SYN(synDeviceAcquireByModuleId(&byModule, modules[5]));
  synDeviceInfoV2 info;
  ASSERT_SYN(synDeviceGetInfoV2(byModule, &info));
  EXPECT_EQ(info.deviceIndex, 5u);
  EXPECT_SYN_ERROR(synDeviceAcquireByModuleId(&byPci, modules[5]), synDeviceAlreadyAcquired, "already");
  char pci[32];
  ASSERT_SYN(synDeviceGetPCIBusId(pci, sizeof(pci), byModule));
  EXPECT_EQ(synDeviceAcquire(&byPci, pci), synDeviceAlreadyAcquired);
  ASSERT_SYN(synDeviceRelease(byModule));
  ASSERT_SYN(synDeviceAcquire(&byPci, pci));
  ASSERT_SYN(synDeviceGetInfoV2(byPci, &info));
  EXPECT_EQ(info.deviceIndex, 5u);
  char same[32];
  ASSERT_SYN(synDeviceGetPCIBusId(same, sizeof(same), byPci));
  EXPECT_STREQ(same, pci);
}

TEST_F(Devices, ThatDoNotExistAreNotAcquired) {
  synDeviceId device = 0;
  EXPECT_SYN_ERROR(synDeviceAcquireByModuleId(&device, 8), synNoDeviceFound, "module id 8");
  EXPECT_SYN_ERROR(synDeviceAcquireByModuleId(&device, INVALID_MODULE_ID), synNoDeviceFound, "4294967295");
  EXPECT_SYN_ERROR(synDeviceAcquire(&device, "0000:ff:00.0"), synNoDeviceFound, "0000:ff:00.0");
  EXPECT_SYN_ERROR(synDeviceAcquire(&device, ""), synInvalidArgument, "empty");
  EXPECT_SYN_ERROR(synDeviceAcquireByDeviceType(&device, synDeviceGreco), synNoDeviceFound, "not simulated");
  EXPECT_SYN_ERROR(synDeviceAcquireByDeviceType(&device, synDeviceTypeSize), synInvalidArgument, "8");
  EXPECT_SYN_ERROR(synDeviceAcquire(nullptr, nullptr), synInvalidArgument, "null");
  EXPECT_SYN_ERROR(synDeviceAcquireByDeviceType(nullptr, synDeviceGaudi2), synInvalidArgument, "null");
  EXPECT_SYN_ERROR(synDeviceAcquireByModuleId(nullptr, 0), synInvalidArgument, "null");
}

TEST_F(Devices, ANodeOfOneTypeGivesNoOther) {
  ASSERT_SYN(synConfigurationSet("HPU_NODE_TARGET", "gaudi3"));
  synDeviceId device = 0;
  EXPECT_EQ(synDeviceAcquireByDeviceType(&device, synDeviceGaudi2), synDeviceTypeMismatch) << hpuSynLastError();
  ASSERT_SYN(synDeviceAcquire(&device, nullptr));
  char name[16];
  ASSERT_SYN(synDeviceGetName(name, sizeof(name), device));
  EXPECT_STREQ(name, "GAUDI3");
}

/// What is made for a device while another thread releases it must not keep the device.
TEST_F(Devices, ReleasedWhileOtherThreadsMakeObjectsAreFree) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> makers;
  for (int i = 0; i < 2; ++i)
    makers.emplace_back([&, i] {
      while (!stop) {
        synStreamHandle stream = nullptr;
        synEventHandle event = nullptr;
        if (i == 0)
          synStreamCreateGeneric(&stream, 0, 0);
        else
          synEventCreate(&event, 0, 0);
      }
    });
  synDeviceId device = 0;
  for (int i = 0; i < 100; ++i) {
    EXPECT_SYN(synDeviceAcquireByDeviceType(&device, synDeviceGaudi2));
    EXPECT_EQ(device, 0u);
    std::this_thread::yield();
    EXPECT_SYN(synDeviceRelease(device));
    if (HasFailure()) break;
  }
  stop = true;
  for (std::thread& maker : makers) maker.join();
  for (int i = 0; i < 8; ++i) ASSERT_SYN(synDeviceAcquireByDeviceType(&device, synDeviceGaudi2)) << i;
  for (synDeviceId id = 0; id < 8; ++id) EXPECT_SYN(synDeviceRelease(id));
}

TEST_F(Devices, WhatTheHostCannotGiveIsNotALackOfDevices) {
  synDeviceId device = 0;
  ASSERT_SYN(synConfigurationSet("HPU_SIM_HBM_BYTES", "1048576T"));
  EXPECT_SYN_ERROR(synDeviceAcquire(&device, nullptr), synOutOfHostMemory, "HPU_SIM_HBM_BYTES");
  EXPECT_SYN_ERROR(synDeviceAcquireByModuleId(&device, 2), synOutOfHostMemory, "HPU_SIM_HBM_BYTES");
  ASSERT_SYN(synConfigurationSet("HPU_SIM_HBM_BYTES", "64M"));
  ASSERT_SYN(synConfigurationSet("HPU_TRACE", "/nonexistent/run.hputrace"));
  EXPECT_SYN_ERROR(synDeviceAcquire(&device, nullptr), synInvalidArgument,
                   "HPU_TRACE=/nonexistent/run.hputrace: cannot");
  ASSERT_SYN(synConfigurationSet("HPU_TRACE", ""));
  for (int i = 0; i < 8; ++i) ASSERT_SYN(synDeviceAcquire(&device, nullptr)) << i;
  EXPECT_SYN_ERROR(synDeviceAcquire(&device, nullptr), synNoDeviceFound, "all 8 devices");
}

TEST_F(Devices, AnotherProcessCannotHaveAnOwnedOne) {
  synDeviceId device = 0;
  ASSERT_SYN(synDeviceAcquireByModuleId(&device, 0));
  pid_t child = fork();
  if (child == 0) {
    // A forked child is another process: what its parent owns is not its own.
    synDeviceId mine = 0;
    synStatus status = synDeviceAcquireByModuleId(&mine, 0);
    _exit(status == synDeviceAlreadyAcquired ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  ASSERT_SYN(synDeviceRelease(device));
}

TEST_F(Devices, ReleaseEndsWhatBelongsToThem) {
  synDeviceId device = 0, other = 0;
  ASSERT_SYN(synDeviceAcquireByDeviceType(&device, synDeviceGaudi2));
  ASSERT_SYN(synDeviceAcquireByDeviceType(&other, synDeviceGaudi2));
  synStreamHandle stream = nullptr, kept = nullptr;
  ASSERT_SYN(synStreamCreateGeneric(&stream, device, 0));
  ASSERT_SYN(synStreamCreateGeneric(&kept, other, 0));
  ASSERT_SYN(synDeviceRelease(device));
  EXPECT_SYN_ERROR(synStreamSynchronize(stream), synInvalidArgument, "stale");
  EXPECT_SYN(synStreamSynchronize(kept));
  EXPECT_SYN(synDeviceSynchronize(other));
}

TEST_F(Devices, DestroyGivesAllBack) {
  synDeviceId device = 0;
  for (int i = 0; i < 8; ++i) ASSERT_SYN(synDeviceAcquire(&device, nullptr));
  ASSERT_SYN(synDestroy());
  EXPECT_EQ(synDeviceSynchronize(device), synUninitialized);
  ASSERT_SYN(synInitialize());
  ASSERT_SYN(synDeviceAcquire(&device, nullptr));
  EXPECT_EQ(device, 0u);
}

TEST_F(Devices, AreAcquiredUsedAndReleasedByManyThreadsAtOnce) {
  ASSERT_SYN(synConfigurationSet("HPU_ACQUIRE_TIMEOUT_MS", "20000"));
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([t] {
      for (int round = 0; round < 6; ++round) {
        synDeviceId device = SYN_INVALID_DEVICE_ID;
        synStreamHandle stream = nullptr;
        uint64_t memory = 0;
        ASSERT_SYN(synDeviceAcquireByDeviceType(&device, round % 2 ? synDeviceGaudi2 : synDeviceGaudi3));
        ASSERT_SYN(synStreamCreateGeneric(&stream, device, 0));
        ASSERT_SYN(synDeviceMalloc(device, 4096, 0, 0, &memory));
        std::vector<uint8_t> back(4096);
        auto value = static_cast<uint8_t>(16 * t + round);
        ASSERT_SYN(synMemsetD8Async(memory, value, 4096, stream));
        ASSERT_SYN(synMemCopyAsync(stream, memory, 4096, address(back.data()), DRAM_TO_HOST));
        ASSERT_SYN(synStreamSynchronize(stream));
        EXPECT_EQ(back, std::vector<uint8_t>(4096, value));
        ASSERT_SYN(synDeviceRelease(device));
        EXPECT_EQ(synStreamQuery(stream), synInvalidArgument);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Devices, SayWhatTheyAre) {
  synDeviceId device = 0;
  ASSERT_SYN(synDeviceAcquireByDeviceType(&device, synDeviceGaudi2));
  char name[16], pci[32];
  ASSERT_SYN(synDeviceGetName(name, sizeof(name), device));
  EXPECT_STREQ(name, "GAUDI2");
  ASSERT_SYN(synDeviceGetPCIBusId(pci, sizeof(pci), device));
  EXPECT_THAT(pci, testing::MatchesRegex("0000:[0-9a-f][0-9a-f]:00[.]0"));
  synDeviceInfo info;
  ASSERT_SYN(synDeviceGetInfo(device, &info));
  EXPECT_EQ(info.dramSize, uint64_t{64} << 20);
  EXPECT_GT(info.sramSize, 40u << 20);  // 48 MB.
  EXPECT_EQ(info.tpcEnabledMask, (uint64_t{1} << 24) - 1);
  EXPECT_EQ(info.dramEnabled, 1u);
  uint64_t memory = 0;
  ASSERT_SYN(synDeviceMalloc(device, 1, 0, 0, &memory));
  EXPECT_GE(memory, info.dramBaseAddress);
  EXPECT_LT(memory, info.dramBaseAddress + info.dramSize);

  EXPECT_SYN_ERROR(synDeviceGetName(name, 3, device), synInvalidArgument, "needs 7 bytes");
  EXPECT_SYN_ERROR(synDeviceGetName(nullptr, 16, device), synInvalidArgument, "null");
  synDeviceId second = 0;
  ASSERT_SYN(synDeviceAcquire(&second, nullptr)) << "with one device every id is its id";
  EXPECT_SYN_ERROR(synDeviceGetName(name, 16, 5), synInvalidArgument, "has not acquired a device 5");
  EXPECT_SYN_ERROR(synDeviceGetPCIBusId(pci, -1, device), synInvalidArgument, "-1");
  EXPECT_SYN_ERROR(synDeviceGetPCIBusId(nullptr, 32, device), synInvalidArgument, "null");
  EXPECT_SYN_ERROR(synDeviceGetInfo(device, nullptr), synInvalidArgument, "null");
  EXPECT_SYN_ERROR(synDeviceGetInfo(3, &info), synInvalidArgument, "device 3");
  EXPECT_SYN_ERROR(synDeviceGetInfoV2(device, nullptr), synInvalidArgument, "null");
  synDeviceInfoV2 v2;
  EXPECT_SYN_ERROR(synDeviceGetInfoV2(SYN_INVALID_DEVICE_ID, &v2), synInvalidArgument, "4294967295");
}

TEST_F(Devices, HaveAttributes) {
  synDeviceId device = 0;
  ASSERT_SYN(synDeviceAcquireByModuleId(&device, 2));
  synDeviceInfo info;
  ASSERT_SYN(synDeviceGetInfo(device, &info));
  const synDeviceAttribute all[] = {DEVICE_ATTRIBUTE_SRAM_BASE_ADDRESS,
                                    DEVICE_ATTRIBUTE_DRAM_BASE_ADDRESS,
                                    DEVICE_ATTRIBUTE_SRAM_SIZE,
                                    DEVICE_ATTRIBUTE_DRAM_SIZE,
                                    DEVICE_ATTRIBUTE_DRAM_FREE_SIZE,
                                    DEVICE_ATTRIBUTE_TPC_ENABLED_MASK,
                                    DEVICE_ATTRIBUTE_DRAM_ENABLED,
                                    DEVICE_ATTRIBUTE_DEVICE_TYPE,
                                    DEVICE_ATTRIBUTE_CLK_RATE,
                                    DEVICE_ATTRIBUTE_MAX_RMW_SIZE,
                                    DEVICE_ATTRIBUTE_STREAMS_TOTAL_MEM_SIZE,
                                    DEVICE_ATTRIBUTE_ADDRESS_ALIGNMENT_SIZE,
                                    DEVICE_ATTRIBUTE_MAX_DIMS};
  uint64_t memory = 0;
  ASSERT_SYN(synDeviceMalloc(device, 1 << 20, 0, 0, &memory));
  uint64_t own[13], byModule[13];
  ASSERT_SYN(synDeviceGetAttribute(own, all, 13, device));
  EXPECT_EQ(own[DEVICE_ATTRIBUTE_DRAM_BASE_ADDRESS], info.dramBaseAddress);
  EXPECT_EQ(own[DEVICE_ATTRIBUTE_SRAM_SIZE], info.sramSize);
  EXPECT_EQ(own[DEVICE_ATTRIBUTE_DRAM_SIZE], info.dramSize);
  EXPECT_EQ(own[DEVICE_ATTRIBUTE_DRAM_FREE_SIZE], info.dramSize - (1 << 20));
  EXPECT_EQ(own[DEVICE_ATTRIBUTE_TPC_ENABLED_MASK], info.tpcEnabledMask);
  EXPECT_EQ(own[DEVICE_ATTRIBUTE_DRAM_ENABLED], 1u);
  EXPECT_EQ(own[DEVICE_ATTRIBUTE_DEVICE_TYPE], static_cast<uint64_t>(synDeviceGaudi2));
  EXPECT_EQ(own[DEVICE_ATTRIBUTE_CLK_RATE], 1650u);  // The MME's, in MHz.
  EXPECT_EQ(memory % own[DEVICE_ATTRIBUTE_ADDRESS_ALIGNMENT_SIZE], 0u);
  ASSERT_SYN(synDeviceGetAttributeByModuleId(byModule, all, 13, 2));
  own[DEVICE_ATTRIBUTE_DRAM_FREE_SIZE] = byModule[DEVICE_ATTRIBUTE_DRAM_FREE_SIZE];
  EXPECT_THAT(byModule, testing::ElementsAreArray(own));

  uint64_t value = 0;
  const synDeviceAttribute size = DEVICE_ATTRIBUTE_DRAM_SIZE, free = DEVICE_ATTRIBUTE_DRAM_FREE_SIZE,
                           mask = DEVICE_ATTRIBUTE_TPC_ENABLED_MASK;
  ASSERT_SYN(synDeviceTypeGetAttribute(&value, &size, 1, synDeviceGaudi3));
  EXPECT_GE(value, uint64_t{128} * 1000 * 1000 * 1000);
  ASSERT_SYN(synDeviceTypeGetAttribute(&value, &mask, 1, synDeviceGaudi3));
  EXPECT_EQ(value, ~uint64_t{0}) << "64 TPCs";
  EXPECT_SYN_ERROR(synDeviceTypeGetAttribute(&value, &free, 1, synDeviceGaudi3), synUnsupported, "of a device");
}

TEST_F(Devices, AttributesOfNothingAreErrors) {
  synDeviceId device = 0;
  ASSERT_SYN(synDeviceAcquire(&device, nullptr));
  const synDeviceAttribute size = DEVICE_ATTRIBUTE_DRAM_SIZE, none = static_cast<synDeviceAttribute>(13);
  uint64_t value = 7;
  EXPECT_SYN_ERROR(synDeviceGetAttribute(&value, &none, 1, device), synInvalidArgument, "attribute 13");
  EXPECT_SYN_ERROR(synDeviceGetAttribute(nullptr, &size, 1, device), synInvalidArgument, "null");
  EXPECT_SYN_ERROR(synDeviceGetAttribute(&value, nullptr, 1, device), synInvalidArgument, "null");
  synDeviceId second = 0;
  ASSERT_SYN(synDeviceAcquire(&second, nullptr)) << "with one device every id is its id";
  EXPECT_SYN_ERROR(synDeviceGetAttribute(&value, &size, 1, 6), synInvalidArgument, "device 6");
  EXPECT_SYN_ERROR(synDeviceGetAttributeByModuleId(&value, &size, 1, 8), synNoDeviceFound, "module id 8");
  EXPECT_SYN_ERROR(synDeviceGetAttributeByModuleId(nullptr, &size, 1, 0), synInvalidArgument, "null");
  EXPECT_SYN_ERROR(synDeviceTypeGetAttribute(&value, &size, 1, synDeviceEmulator), synInvalidArgument, "type 6");
  EXPECT_SYN_ERROR(synDeviceTypeGetAttribute(&value, nullptr, 1, synDeviceGaudi2), synInvalidArgument, "null");
  EXPECT_EQ(value, 7u);
}

TEST_F(Devices, ADumpEndsTheWorkAndNotTheProcess) {
  synDeviceId device = 0;
  ASSERT_SYN(synDeviceAcquire(&device, nullptr));
  synStreamHandle stream = nullptr;
  ASSERT_SYN(synStreamCreateGeneric(&stream, device, 0));
  EXPECT_SYN_ERROR(synDumpStateAndTerminate(nullptr, 0), synInvalidArgument, "null");
  testing::internal::CaptureStderr();
  EXPECT_SYN(synDumpStateAndTerminate("the test says so", 0));
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("the test says so"));
  EXPECT_THAT(text, HasSubstr("device 0: "));
  EXPECT_THAT(text, HasSubstr("stream 0: idle"));
  EXPECT_SYN_ERROR(synStreamSynchronize(stream), synSynapseTerminated, "synDumpStateAndTerminate");
  EXPECT_EQ(synInitialize(), synSynapseTerminated);
  ASSERT_SYN(synDestroy());
  ASSERT_SYN(synInitialize());
  EXPECT_SYN(synDeviceAcquire(&device, nullptr)) << "the device was given back";
}

}  // namespace
}  // namespace synapse_test
