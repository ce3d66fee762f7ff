// SPDX-License-Identifier: Apache-2.0
// What hcclx.h adds: each function for its purpose, and wrongly.
#include <thread>

#include "HcclFixture.h"

namespace synapse_test {
namespace {

class Hcclx : public HcclTest {
 protected:
  static constexpr size_t kRanks = 4;
  template <typename Call>
  void onEveryRank(Call&& call) {
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < kRanks; ++rank) threads.emplace_back([&, rank] { call(rank); });
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_F(Hcclx, ConfiguredAndNonBlockingInitialisation) {
  acquire(2);
  hcclUniqueId id;
  ASSERT_HCCL(hcclGetUniqueId(&id));
  hcclx_config config = {};
  config.size = sizeof(config);
  config.nonBlocking = 1;
  config.name = "pair";
  hcclComm_t made[2];
  for (int rank = 0; rank < 2; ++rank) {
    config.device = 1 + static_cast<int>(devices[static_cast<size_t>(rank)]);
    ASSERT_HCCL(hcclx_CommInitRankConfig(&made[rank], 2, id, rank, &config));
  }
  for (hcclComm_t comm : made) {
    hcclResult_t ready = hcclBusy;
    for (int i = 0; i < 6000 && ready == hcclBusy; ++i) {
      ready = hcclx_CommReady(comm);
      if (ready == hcclBusy) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(ready, hcclSuccess) << hcclWords();
  }
  EXPECT_HCCL(hcclx_CommReady(made[0]));
  EXPECT_HCCL_ERROR(hcclx_CommReady(streams[0]), hcclInvalidArgument, "stream");
  hcclComm_t comm;
  config.device = 78;
  EXPECT_HCCL_ERROR(hcclx_CommInitRankConfig(&comm, 2, id, 0, &config), hcclNoDeviceFound, "77");
  config.size = 4000;
  EXPECT_HCCL_ERROR(hcclx_CommInitRankConfig(&comm, 2, id, 0, &config), hcclInvalidArgument, "sizeof(hcclx_config)");
}

TEST_F(Hcclx, CallsAreBusyUntilTheRanksHaveMetAndThenSayWhyTheyDidNot) {
  acquire(1);
  uint64_t memory = allocate(0, 64);
  hcclUniqueId id;
  ASSERT_HCCL(hcclGetUniqueId(&id));
  hcclx_config config = {};
  config.size = sizeof(config);
  config.nonBlocking = 1;
  config.initTimeoutMs = 1500;
  hcclComm_t comm, other;
  ASSERT_HCCL(hcclx_CommInitRankConfig(&comm, 2, id, 0, &config));
  int excluded = 1;
  auto everything = [&](hcclResult_t result, const char* text) {
    EXPECT_HCCL_ERROR(hcclx_CommReady(comm), result, text);
    EXPECT_HCCL_ERROR(hcclAllReduce(pointer(memory), pointer(memory), 4, hcclFloat32, hcclSum, comm, streams[0]),
                      result, text);
    EXPECT_HCCL_ERROR(hcclRecv(pointer(memory), 4, hcclFloat32, 1, comm, streams[0]), result, text);
    EXPECT_HCCL_ERROR(hcclBarrier(comm, streams[0]), result, text);
    EXPECT_HCCL_ERROR(hcclCommFinalize(comm), result, text);
    EXPECT_HCCL_ERROR(hcclx_CommSplit(comm, 0, 0, &other, nullptr), result, text);
    EXPECT_HCCL_ERROR(hcclx_CommShrink(comm, &excluded, 1, &other, nullptr), result, text);
    hcclResult_t error = hcclSuccess;
    ASSERT_HCCL(hcclCommGetAsyncError(comm, &error));
    EXPECT_EQ(error, result);
    const char* words = hcclCommGetAsyncErrorMessage(comm);
    EXPECT_THAT(words ? words : "", testing::HasSubstr(text));
    ASSERT_HCCL(hcclGroupStart());
    EXPECT_EQ(hcclBarrier(comm, streams[0]), result);
    EXPECT_HCCL_ERROR(hcclGroupEnd(), result, text);
  };
  everything(hcclBusy, "still being created");
  EXPECT_EQ(hcclCommGetAsyncErrorMessage(nullptr), nullptr) << "none has failed";
  for (int i = 0; i < 6000 && hcclx_CommReady(comm) == hcclBusy; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  everything(hcclSocketError, "rank 1 has not come");
  ASSERT_HCCL(hcclCommDestroy(comm));
}

TEST_F(Hcclx, ARankThatCannotBeginTellsTheOthersAtOnce) {
  acquire(2);
  hcclx_config good = {}, table = {}, timeout = {}, device = {};
  good.size = table.size = timeout.size = device.size = sizeof(hcclx_config);
  good.nonBlocking = 1;
  good.initTimeoutMs = 60000;
  good.device = 1 + static_cast<int>(devices[0]);
  table.device = timeout.device = 1 + static_cast<int>(devices[1]);
  table.tunerTable = "/nowhere";
  timeout.timeoutMs = -1;
  device.device = 78;
  const auto begin = std::chrono::steady_clock::now();
  for (const auto& [wrong, text] : {std::pair{&table, "/nowhere"}, {&timeout, "is negative"}, {&device, "77"}}) {
    hcclUniqueId id;
    ASSERT_HCCL(hcclGetUniqueId(&id));
    hcclComm_t comm, other;
    ASSERT_HCCL(hcclx_CommInitRankConfig(&comm, 2, id, 0, &good));
    EXPECT_NE(hcclx_CommInitRankConfig(&other, 2, id, 1, wrong), hcclSuccess);
    EXPECT_THAT(hcclWords(), testing::HasSubstr(text));
    hcclResult_t ready = hcclBusy;
    while (ready == hcclBusy && std::chrono::steady_clock::now() - begin < std::chrono::seconds(30)) {
      ready = hcclx_CommReady(comm);
      if (ready == hcclBusy) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_NE(ready, hcclSuccess);
    EXPECT_NE(ready, hcclBusy);
    EXPECT_THAT(hcclWords(),
                testing::AllOf(testing::HasSubstr("rank 1 of 2 does not take part"), testing::HasSubstr(text)));
    ASSERT_HCCL(hcclCommDestroy(comm));
  }
}

TEST_F(Hcclx, AMissingRankIsNamedInTime) {
  acquire(1);
  hcclUniqueId id;
  ASSERT_HCCL(hcclGetUniqueId(&id));
  hcclx_config config = {};
  config.size = sizeof(config);
  config.initTimeoutMs = 300;
  hcclComm_t comm;
  EXPECT_HCCL_ERROR(hcclx_CommInitRankConfig(&comm, 3, id, 0, &config), hcclSocketError, "ranks 1 to 2");
}

TEST_F(Hcclx, SplitsAndShrinks) {
  ranks(kRanks);
  hcclComm_t halves[kRanks] = {}, rest[kRanks] = {};
  onEveryRank([&](size_t rank) {
    EXPECT_HCCL(hcclx_CommSplit(comms[rank], rank == 3 ? -1 : static_cast<int>(rank % 2), -static_cast<int>(rank),
                                &halves[rank], nullptr));
    int excluded = 1;
    if (rank != 1) {
      EXPECT_HCCL(hcclx_CommShrink(comms[rank], &excluded, 1, &rest[rank], nullptr));
    }
  });
  EXPECT_EQ(halves[3], nullptr);
  int count = 0, rank = -1;
  ASSERT_HCCL(hcclCommCount(halves[0], &count));
  ASSERT_HCCL(hcclCommUserRank(halves[0], &rank));
  EXPECT_EQ(count, 2);
  EXPECT_EQ(rank, 1) << "ordered by key";
  ASSERT_HCCL(hcclCommCount(rest[3], &count));
  ASSERT_HCCL(hcclCommUserRank(rest[3], &rank));
  EXPECT_EQ(count, 3);
  EXPECT_EQ(rank, 2);
  int none = 9;
  EXPECT_HCCL_ERROR(hcclx_CommSplit(comms[0], 0, 0, nullptr, nullptr), hcclInvalidArgument, "newComm is null");
  EXPECT_HCCL_ERROR(hcclx_CommShrink(comms[0], &none, 1, &rest[0], nullptr), hcclInvalidArgument, "9");
  // More than the communicator has: the array is not read.
  EXPECT_HCCL_ERROR(hcclx_CommShrink(comms[0], &none, kRanks + 1, &rest[0], nullptr), hcclInvalidArgument,
                    "`count` ranks, 5, of 4");
}

TEST_F(Hcclx, GathersAndScatters) {
  ranks(kRanks);
  std::vector<uint64_t> parts, wholes;
  for (size_t r = 0; r < kRanks; ++r) {
    parts.push_back(upload<int32_t>(r, {static_cast<int>(r), static_cast<int>(10 * r)}));
    wholes.push_back(allocate(r, 2 * kRanks * 4));
  }
  for (size_t r = 0; r < kRanks; ++r)
    ASSERT_HCCL(hcclx_Gather(pointer(parts[r]), pointer(wholes[r]), 2, hcclInt32, 3, comms[r], streams[r]));
  EXPECT_THAT(download<int32_t>(3, wholes[3], 8), testing::ElementsAre(0, 0, 1, 10, 2, 20, 3, 30));
  for (size_t r = 0; r < kRanks; ++r)
    ASSERT_HCCL(hcclx_Scatter(pointer(wholes[r]), pointer(parts[r]), 2, hcclInt32, 3, comms[r], streams[r]));
  EXPECT_THAT(download<int32_t>(2, parts[2], 2), testing::ElementsAre(2, 20));
  EXPECT_HCCL_ERROR(hcclx_Gather(pointer(parts[0]), pointer(wholes[0]), 2, hcclInt32, 4, comms[0], streams[0]),
                    hcclInvalidArgument, "root");
  EXPECT_HCCL_ERROR(hcclx_Scatter(pointer(wholes[0]), pointer(parts[0]), 2, hcclInt32, -1, comms[0], streams[0]),
                    hcclInvalidArgument, "root");
}

TEST_F(Hcclx, ExchangesOfDifferentSizes) {
  ranks(kRanks);
  // Rank r sends p + 1 elements of value 10 r + p to rank p.
  std::vector<uint64_t> in, out;
  uint64_t sendCounts[kRanks], sendAt[kRanks], gatherCounts[kRanks], gatherAt[kRanks];
  uint64_t total = 0;
  for (size_t p = 0; p < kRanks; ++p) {
    sendCounts[p] = p + 1;
    sendAt[p] = total;
    gatherCounts[p] = p;
    gatherAt[p] = p * 4;
    total += p + 1;
  }
  for (size_t r = 0; r < kRanks; ++r) {
    std::vector<int32_t> values;
    for (size_t p = 0; p < kRanks; ++p) values.insert(values.end(), p + 1, static_cast<int32_t>(10 * r + p));
    in.push_back(upload(r, values));
    out.push_back(upload<int32_t>(r, std::vector<int32_t>(16, -1)));
    uint64_t counts[kRanks], at[kRanks];
    for (size_t p = 0; p < kRanks; ++p) {
      counts[p] = r + 1;
      at[p] = p * (r + 1);
    }
    ASSERT_HCCL(hcclx_AlltoAllv(pointer(in[r]), sendCounts, sendAt, pointer(out[r]), counts, at, hcclInt32, comms[r],
                                streams[r]));
  }
  EXPECT_THAT(download<int32_t>(1, out[1], 8), testing::ElementsAre(1, 1, 11, 11, 21, 21, 31, 31));
  for (size_t r = 0; r < kRanks; ++r)
    ASSERT_HCCL(
        hcclx_AllGatherv(pointer(in[r]), pointer(out[r]), gatherCounts, gatherAt, hcclInt32, comms[r], streams[r]));
  std::vector<int32_t> gathered = download<int32_t>(0, out[0], 16);
  EXPECT_EQ(gathered[4], 10);
  EXPECT_EQ(gathered[12], 30);
  EXPECT_EQ(gathered[14], 31);
  EXPECT_HCCL_ERROR(hcclx_AlltoAllv(pointer(in[0]), nullptr, sendAt, pointer(out[0]), sendCounts, sendAt, hcclInt32,
                                    comms[0], streams[0]),
                    hcclInvalidArgument, "sendcounts is null");
  EXPECT_HCCL_ERROR(
      hcclx_AllGatherv(pointer(in[0]), pointer(out[0]), gatherCounts, nullptr, hcclInt32, comms[0], streams[0]),
      hcclInvalidArgument, "displs is null");
}

TEST_F(Hcclx, RelaysOverAllLinks) {
  ranks(kRanks);
  std::vector<float> values(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  uint64_t in = upload(1, values), out = allocate(2, 4000);
  for (size_t r = 0; r < kRanks; ++r)
    ASSERT_HCCL(hcclx_Relay(r == 1 ? pointer(in) : nullptr, r == 2 ? pointer(out) : nullptr, 1000, hcclFloat32, 1, 2,
                            comms[r], streams[r]));
  EXPECT_EQ(download<float>(2, out, 1000), values);
  EXPECT_HCCL_ERROR(hcclx_Relay(pointer(in), nullptr, 1000, hcclFloat32, 1, 7, comms[1], streams[1]),
                    hcclInvalidArgument, "7");
}

TEST_F(Hcclx, ScalesContributions) {
  ranks(kRanks);
  std::vector<uint64_t> memory;
  for (size_t r = 0; r < kRanks; ++r)
    memory.push_back(upload<float>(r, std::vector<float>(8, static_cast<float>(r + 1))));
  for (size_t r = 0; r < kRanks; ++r)
    ASSERT_HCCL(hcclx_AllReduceScaled(pointer(memory[r]), pointer(memory[r]), 8, hcclFloat32, hcclSum,
                                      r == 0 ? 2.0 : 0.5, comms[r], streams[r]));
  EXPECT_EQ(download<float>(2, memory[2], 8)[0], 2 + 1 + 1.5 + 2);
  for (size_t r = 0; r < kRanks; ++r)
    ASSERT_HCCL(hcclx_ReduceScatterScaled(pointer(memory[r]), pointer(memory[r] + r * 8), 2, hcclFloat32, hcclAvg, 2.0,
                                          comms[r], streams[r]));
  EXPECT_EQ(download<float>(3, memory[3] + 24, 2)[1], 13);
  EXPECT_HCCL_ERROR(
      hcclx_AllReduceScaled(pointer(memory[0]), pointer(memory[0]), 8, hcclFloat32, hcclMax, 2.0, comms[0], streams[0]),
      hcclInvalidArgument, "");
  EXPECT_HCCL_ERROR(hcclx_ReduceScatterScaled(pointer(memory[0]), pointer(memory[0]), 2, hcclFloat32, hcclProd, 2.0,
                                              comms[0], streams[0]),
                    hcclInvalidArgument, "");
}

TEST_F(Hcclx, SumsFp8InF32) {
  ranks(kRanks);
  // 0x38 is 1.0 in E4M3 (bias 7), 0x3c is 1.0 in E5M2 (bias 15); 0x48 is 4.0 and 0x44 is 4.0.
  for (auto [type, one, four] : {std::tuple{hcclxFloat8E4M3, 0x38, 0x48}, std::tuple{hcclxFloat8E5M2, 0x3c, 0x44}}) {
    std::vector<uint64_t> memory;
    for (size_t r = 0; r < kRanks; ++r)
      memory.push_back(upload<uint8_t>(r, std::vector<uint8_t>(33, static_cast<uint8_t>(one))));
    for (size_t r = 0; r < kRanks; ++r)
      ASSERT_HCCL(hcclAllReduce(pointer(memory[r]), pointer(memory[r]), 33, type, hcclSum, comms[r], streams[r]));
    EXPECT_EQ(download<uint8_t>(1, memory[1], 33), std::vector<uint8_t>(33, static_cast<uint8_t>(four)));
  }
}

TEST_F(Hcclx, RegistersMemory) {
  ranks(1);
  uint64_t memory = allocate(0, 4096);
  void* handle = nullptr;
  ASSERT_HCCL(hcclx_CommRegister(comms[0], pointer(memory), 4096, &handle));
  ASSERT_HCCL(hcclx_CommDeregister(comms[0], handle));
  EXPECT_HCCL_ERROR(hcclx_CommDeregister(comms[0], handle), hcclInvalidArgument, "stale");
  EXPECT_HCCL_ERROR(hcclx_CommRegister(comms[0], pointer(memory), 8192, &handle), hcclInvalidArgument, "4096");
}

TEST_F(Hcclx, PredictsWithoutCommunicating) {
  ranks(2);
  hcclx_prediction known;
  ASSERT_HCCL(hcclx_Predict(comms[0], hcclxAllReduce, 1 << 20, hcclFloat32, &known));
  EXPECT_GT(known.predictedNs, known.lowerBoundNs);
  EXPECT_GT(known.lowerBoundNs, 0);
  EXPECT_STRNE(known.algorithm, "");
  EXPECT_STRNE(known.reason, "");
  EXPECT_HCCL_ERROR(hcclx_Predict(comms[0], static_cast<hcclx_collective>(13), 1, hcclFloat32, &known),
                    hcclInvalidArgument, "13");
}

}  // namespace
}  // namespace synapse_test
