// SPDX-License-Identifier: Apache-2.0
// Order between streams by addresses: who waits for whom is seen in device times, which depend on the calls alone.
#include "tests/unit/bindings/synapse/DeviceFixture.h"

namespace synapse_test {
namespace {

class AddressOrder : public SynapseTest {
 protected:
  void SetUp() override { start("1"); }
  void start(const char* setting) {
    ASSERT_SYN(synConfigurationSet("HPU_SYNAPSE_ADDRESS_ORDER", setting));
    SynapseTest::SetUp();
    ASSERT_SYN(synStreamCreateGeneric(&other, device, 0));
    buffer = allocate(kBytes);
    away = allocate(kBytes);
    host.assign(kBytes, 1);
    back.assign(kBytes, 2);
  }
  void TearDown() override {
    SynapseTest::TearDown();
    EXPECT_SYN(synConfigurationSet("HPU_SYNAPSE_ADDRESS_ORDER", ""));
  }
  /// Whether the last work of `other` came after the long work of `stream`.
  bool otherWaited() {
    synEventHandle first = nullptr, second = nullptr;
    uint64_t a = 0, b = 0;
    EXPECT_SYN(synEventCreate(&first, device, EVENT_COLLECT_TIME));
    EXPECT_SYN(synEventCreate(&second, device, EVENT_COLLECT_TIME));
    EXPECT_SYN(synEventRecord(first, stream));
    EXPECT_SYN(synEventRecord(second, other));
    EXPECT_SYN(synDeviceSynchronize(device));
    EXPECT_SYN(synEventElapsedTime(&a, first, nullptr));
    EXPECT_SYN(synEventElapsedTime(&b, second, nullptr));
    EXPECT_SYN(synEventDestroy(first));
    EXPECT_SYN(synEventDestroy(second));
    return b >= a;
  }
  void longCopy() {
    for (int i = 0; i < 4; ++i) EXPECT_SYN(synMemCopyAsync(stream, address(host.data()), kBytes, buffer, HOST_TO_DRAM));
  }

  static constexpr uint64_t kBytes = 16 << 20;
  synStreamHandle other = nullptr;
  uint64_t buffer = 0, away = 0;
  std::vector<uint8_t> host, back;
};

class NoAddressOrder : public AddressOrder {
  void SetUp() override { start(""); }
};

TEST_F(NoAddressOrder, WithoutTheSettingStreamsDoNotWait) {
  longCopy();
  ASSERT_SYN(synMemCopyAsync(other, buffer + 64, 64, address(back.data()), DRAM_TO_HOST));
  EXPECT_FALSE(otherWaited());
}

TEST_F(AddressOrder, WhatIsCopiedBackIsWhatWasCopiedThere) {
  for (uint8_t round = 3; round < 40; ++round) {
    std::vector<uint8_t> data = pattern(kBytes / 16, round);
    ASSERT_SYN(synMemCopyAsync(stream, address(data.data()), data.size(), buffer, HOST_TO_DRAM));
    ASSERT_SYN(synMemCopyAsync(other, buffer, data.size(), address(back.data()), DRAM_TO_HOST));
    ASSERT_SYN(synStreamSynchronize(other));
    ASSERT_TRUE(std::equal(data.begin(), data.end(), back.begin())) << int{round};
  }
}

TEST_F(AddressOrder, ReadersWaitForWriters) {
  longCopy();
  ASSERT_SYN(synMemCopyAsync(other, buffer + kBytes - 64, 64, address(back.data()), DRAM_TO_HOST));
  EXPECT_TRUE(otherWaited());
}

TEST_F(AddressOrder, WritersWaitForReaders) {
  for (int i = 0; i < 4; ++i) ASSERT_SYN(synMemCopyAsync(stream, buffer, kBytes, address(back.data()), DRAM_TO_HOST));
  ASSERT_SYN(synMemsetD8Async(buffer + 100, 7, 10, other));
  EXPECT_TRUE(otherWaited());
  EXPECT_EQ(back[100], 0) << "what was read is what was there before";
}

TEST_F(AddressOrder, WritersWaitForWriters) {
  longCopy();
  ASSERT_SYN(synMemsetD32Async(buffer, 5, 4, other));
  EXPECT_TRUE(otherWaited());
  EXPECT_EQ(download(buffer, 20), (std::vector<uint8_t>{5, 0, 0, 0, 5, 0, 0, 0, 5, 0, 0, 0, 5, 0, 0, 0, 1, 1, 1, 1}));
}

TEST_F(AddressOrder, ManyRangesWaitForEach) {
  longCopy();
  uint64_t src[] = {away, buffer + 4096}, size[] = {64, 64}, dst[] = {address(back.data()), address(back.data() + 64)};
  ASSERT_SYN(synMemCopyAsyncMultiple(other, src, size, dst, DRAM_TO_HOST, 2));
  EXPECT_TRUE(otherWaited());
  EXPECT_EQ(back[64], 1);
}

TEST_F(AddressOrder, HostMemoryHasAnOrder) {
  for (int i = 0; i < 4; ++i) ASSERT_SYN(synMemCopyAsync(stream, buffer, kBytes, address(back.data()), DRAM_TO_HOST));
  ASSERT_SYN(synMemCopyAsync(other, address(back.data() + 8), 64, away, HOST_TO_DRAM));
  EXPECT_TRUE(otherWaited());
}

TEST_F(AddressOrder, ReadersTogetherAndOtherPlacesDoNotWait) {
  for (int i = 0; i < 4; ++i) ASSERT_SYN(synMemCopyAsync(stream, buffer, kBytes, address(host.data()), DRAM_TO_HOST));
  ASSERT_SYN(synMemCopyAsync(other, buffer, 64, address(back.data()), DRAM_TO_HOST));
  EXPECT_FALSE(otherWaited());
  longCopy();
  ASSERT_SYN(synMemsetD8Async(away, 7, 64, other));
  EXPECT_FALSE(otherWaited());
}

TEST_F(AddressOrder, NobodyWaitsForWhatAResetDropped) {
  longCopy();
  ASSERT_SYN(hpuSynDeviceReset(device));
  ASSERT_SYN(synMemsetD8Async(buffer, 4, 64, stream));
  ASSERT_SYN(synMemCopyAsync(other, buffer, 64, address(back.data()), DRAM_TO_HOST));
  ASSERT_SYN(synStreamSynchronize(other));
  EXPECT_EQ(back[63], 4);
}

/// Long chains over few streams: what is done is forgotten, and every value is the last one.
TEST_F(AddressOrder, LongChainsKeepTheirOrder) {
  constexpr int kStreams = 4, kRounds = 600;
  synStreamHandle handles[kStreams];
  for (synStreamHandle& handle : handles) ASSERT_SYN(synStreamCreateGeneric(&handle, device, 0));
  uint8_t value = 0;
  for (int i = 0; i < kRounds; ++i) {
    synStreamHandle which = handles[(i * 7) % kStreams];
    value = static_cast<uint8_t>(i);
    uint64_t place = static_cast<uint64_t>(i % 5) * 64;
    ASSERT_SYN(synMemsetD8Async(buffer, value, 320, which));
    ASSERT_SYN(synMemCopyAsync(handles[(i * 3 + 1) % kStreams], buffer + place, 64, away + place, DRAM_TO_DRAM));
  }
  ASSERT_SYN(synDeviceSynchronize(device));
  std::vector<uint8_t> result = download(away, 320);
  for (int i = kRounds - 5; i < kRounds; ++i)
    EXPECT_EQ(result[static_cast<size_t>(i % 5) * 64], static_cast<uint8_t>(i));
}

}  // namespace
}  // namespace synapse_test
