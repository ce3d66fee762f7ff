// SPDX-License-Identifier: Apache-2.0
// Collectives and messages of HCCL's C API: each for its purpose, and each wrongly.
#include <functional>

#include "HcclFixture.h"

namespace synapse_test {
namespace {

class HcclOperations : public HcclTest {
 protected:
  static constexpr size_t kRanks = 3, kCount = 120;
  void SetUp() override {
    HcclTest::SetUp();
    ranks(kRanks);
    for (size_t rank = 0; rank < kRanks; ++rank) {
      std::vector<float> values(kCount);
      for (size_t i = 0; i < kCount; ++i) values[i] = contribution(rank, i);
      in.push_back(upload(rank, values));
      out.push_back(allocate(rank, kCount * kRanks * sizeof(float)));
    }
  }
  static float contribution(size_t rank, size_t i) { return static_cast<float>(100 * rank + i); }
  static float sum(size_t i) { return static_cast<float>(300 + 3 * i); }
  std::vector<float> result(size_t rank, size_t count = kCount) { return download<float>(rank, out[rank], count); }

  std::vector<uint64_t> in, out;
};

TEST_F(HcclOperations, AllReduce) {
  for (size_t r = 0; r < kRanks; ++r)
    ASSERT_HCCL(hcclAllReduce(pointer(in[r]), pointer(out[r]), kCount, hcclFloat32, hcclSum, comms[r], streams[r]));
  for (size_t r = 0; r < kRanks; ++r)
    for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(result(r)[i], sum(i)) << "rank " << r << ", element " << i;
}

TEST_F(HcclOperations, MinIsTwoAndMaxIsThree) {
  for (size_t r = 0; r < kRanks; ++r)
    ASSERT_HCCL(hcclAllReduce(pointer(in[r]), pointer(out[r]), kCount, hcclFloat32, static_cast<hcclRedOp_t>(2),
                              comms[r], streams[r]));
  EXPECT_EQ(result(1)[5], 5);
  for (size_t r = 0; r < kRanks; ++r)
    ASSERT_HCCL(hcclAllReduce(pointer(in[r]), pointer(out[r]), kCount, hcclFloat32, static_cast<hcclRedOp_t>(3),
                              comms[r], streams[r]));
  EXPECT_EQ(result(1)[5], 205);
}

TEST_F(HcclOperations, ReduceGivesTheRootAlone) {
  for (size_t r = 0; r < kRanks; ++r)
    ASSERT_HCCL(hcclReduce(pointer(in[r]), r == 2 ? pointer(out[r]) : nullptr, kCount, hcclFloat32, hcclAvg, 2,
                           comms[r], streams[r]));
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(result(2)[i], sum(i) / 3);
}

TEST_F(HcclOperations, ReduceScatterInPlace) {
  constexpr size_t kPart = kCount / kRanks;
  for (size_t r = 0; r < kRanks; ++r)
    ASSERT_HCCL(hcclReduceScatter(pointer(in[r]), pointer(in[r] + r * kPart * sizeof(float)), kPart, hcclFloat32,
                                  hcclSum, comms[r], streams[r]));
  for (size_t r = 0; r < kRanks; ++r) {
    std::vector<float> part = download<float>(r, in[r] + r * kPart * sizeof(float), kPart);
    for (size_t i = 0; i < kPart; ++i) ASSERT_EQ(part[i], sum(r * kPart + i));
  }
}

TEST_F(HcclOperations, AllGather) {
  for (size_t r = 0; r < kRanks; ++r)
    ASSERT_HCCL(hcclAllGather(pointer(in[r]), pointer(out[r]), kCount, hcclFloat32, comms[r], streams[r]));
  for (size_t r = 0; r < kRanks; ++r) {
    std::vector<float> all = result(r, kCount * kRanks);
    for (size_t peer = 0; peer < kRanks; ++peer)
      for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(all[peer * kCount + i], contribution(peer, i));
  }
}

TEST_F(HcclOperations, AllToAllCountsTheWholeBuffer) {
  constexpr size_t kPart = kCount / kRanks;
  for (size_t r = 0; r < kRanks; ++r)
    ASSERT_HCCL(hcclAlltoAll(pointer(in[r]), pointer(out[r]), kCount, hcclFloat32, comms[r], streams[r]));
  for (size_t r = 0; r < kRanks; ++r)
    for (size_t peer = 0; peer < kRanks; ++peer)
      for (size_t i = 0; i < kPart; ++i) ASSERT_EQ(result(r)[peer * kPart + i], contribution(peer, r * kPart + i));
  EXPECT_HCCL_ERROR(hcclAlltoAll(pointer(in[0]), pointer(out[0]), kCount - 1, hcclFloat32, comms[0], streams[0]),
                    hcclInvalidArgument, "cannot be divided among 3 ranks");
}

TEST_F(HcclOperations, BroadcastsOfBothNames) {
  for (size_t r = 0; r < kRanks; ++r) {
    ASSERT_HCCL(hcclBroadcast(r == 1 ? pointer(in[r]) : nullptr, pointer(out[r]), kCount, hcclFloat32, 1, comms[r],
                              streams[r]));
    ASSERT_HCCL(hcclBcast(pointer(in[r]), kCount, hcclFloat32, 2, comms[r], streams[r]));
  }
  for (size_t r = 0; r < kRanks; ++r) {
    EXPECT_EQ(result(r)[7], contribution(1, 7));
    EXPECT_EQ(download<float>(r, in[r], kCount)[7], contribution(2, 7));
  }
}

TEST_F(HcclOperations, BarrierHoldsUntilTheLastHasCome) {
  ASSERT_HCCL(hcclBarrier(comms[0], streams[0]));
  ASSERT_HCCL(hcclBarrier(comms[1], streams[1]));
  EXPECT_EQ(synStreamQuery(streams[0]), synBusy);
  ASSERT_HCCL(hcclBarrier(comms[2], streams[2]));
  wait();
}

TEST_F(HcclOperations, MessagesOfAGroupWaitForNothingButTheirPeers) {
  for (size_t r = 0; r < kRanks; ++r) {
    ASSERT_HCCL(hcclGroupStart());
    for (size_t peer = 0; peer < kRanks; ++peer) {
      ASSERT_HCCL(hcclRecv(pointer(out[r] + peer * kCount * sizeof(float)), kCount, hcclFloat32, static_cast<int>(peer),
                           comms[r], streams[r]));
      ASSERT_HCCL(hcclSend(pointer(in[r]), kCount, hcclFloat32, static_cast<int>(peer), comms[r], streams[r]));
    }
    ASSERT_HCCL(hcclGroupEnd());
  }
  for (size_t r = 0; r < kRanks; ++r) {
    std::vector<float> all = result(r, kCount * kRanks);
    for (size_t peer = 0; peer < kRanks; ++peer) ASSERT_EQ(all[peer * kCount + 3], contribution(peer, 3));
  }
}

TEST_F(HcclOperations, AMessageWaitsForItsPeer) {
  ASSERT_HCCL(hcclSend(pointer(in[0]), kCount, hcclFloat32, 2, comms[0], streams[0]));
  ASSERT_HCCL(hcclRecv(pointer(out[2]), kCount, hcclFloat32, 0, comms[2], streams[2]));
  EXPECT_EQ(result(2)[9], contribution(0, 9));
}

TEST_F(HcclOperations, WrongCallsAreErrorsOfTheCall) {
  void *send = pointer(in[0]), *receive = pointer(out[0]);
  hcclComm_t comm = comms[0];
  synStreamHandle stream = streams[0];
  auto wrongType = static_cast<hcclDataType_t>(12);
  EXPECT_HCCL_ERROR(hcclAllReduce(send, receive, kCount, wrongType, hcclSum, comm, stream), hcclInvalidArgument,
                    "no data type 12");
  EXPECT_HCCL_ERROR(hcclAllReduce(send, receive, kCount, hcclFloat32, hcclOpNone, comm, stream), hcclInvalidArgument,
                    "no reduction 5");
  EXPECT_HCCL_ERROR(hcclAllReduce(send, receive, kCount, hcclFloat32, hcclSum, comm, nullptr), hcclInvalidArgument,
                    "stream");
  EXPECT_HCCL_ERROR(hcclAllReduce(send, receive, kCount, hcclFloat32, hcclSum, comm, streams[1]), hcclInvalidArgument,
                    "device");
  EXPECT_HCCL_ERROR(hcclAllReduce(send, receive, UINT64_MAX, hcclFloat32, hcclSum, comm, stream), hcclInvalidArgument,
                    "count");
  EXPECT_HCCL_ERROR(hcclReduce(send, receive, kCount, hcclFloat32, hcclSum, 3, comm, stream), hcclInvalidArgument,
                    "root");
  EXPECT_HCCL_ERROR(hcclBroadcast(send, receive, kCount, hcclFloat32, -1, comm, stream), hcclInvalidArgument, "root");
  EXPECT_HCCL_ERROR(hcclBcast(nullptr, kCount, hcclFloat32, 0, comm, stream), hcclInvalidArgument, "");
  std::vector<float> host(kCount);
  EXPECT_HCCL_ERROR(hcclReduceScatter(host.data(), receive, kCount, hcclFloat32, hcclSum, comm, stream),
                    hcclInvalidArgument, "");
  EXPECT_HCCL_ERROR(hcclAllGather(send, receive, kCount * 1000, hcclFloat32, comm, stream), hcclInvalidArgument, "");
  EXPECT_HCCL_ERROR(hcclSend(send, kCount, hcclFloat32, 3, comm, stream), hcclInvalidArgument, "peer");
  EXPECT_HCCL_ERROR(hcclRecv(receive, kCount, hcclFloat32, -1, comm, stream), hcclInvalidArgument, "peer");
  EXPECT_HCCL_ERROR(hcclBarrier(comm, comm), hcclInvalidArgument, "communicator");
  EXPECT_HCCL_ERROR(hcclGroupEnd(), hcclInvalidUsage, "");
  // Nothing was enqueued: the communicator still works.
  for (size_t r = 0; r < kRanks; ++r) ASSERT_HCCL(hcclBarrier(comms[r], streams[r]));
  wait();
}

TEST_F(HcclOperations, AGroupWithAWrongCallEnqueuesNothing) {
  ASSERT_HCCL(hcclGroupStart());
  ASSERT_HCCL(hcclAllReduce(pointer(in[0]), pointer(out[0]), kCount, hcclFloat32, hcclSum, comms[0], streams[0]));
  EXPECT_HCCL_ERROR(hcclSend(pointer(in[0]), kCount, hcclFloat32, 9, comms[0], streams[0]), hcclInvalidArgument,
                    "peer");
  EXPECT_NE(hcclGroupEnd(), hcclSuccess);
  for (size_t r = 0; r < kRanks; ++r) ASSERT_HCCL(hcclBarrier(comms[r], streams[r]));
  wait();
}

TEST_F(HcclOperations, AGroupEndsWithItsFirstErrorWhoeverFindsIt) {
  void *send = pointer(in[0]), *receive = pointer(out[0]);
  hcclComm_t comm = comms[0];
  synStreamHandle stream = streams[0];
  uint64_t counts[kRanks] = {1, 1, 1};
  auto allReduce = [&](hcclDataType_t type, hcclRedOp_t op, hcclComm_t onComm, void* onStream) {
    return hcclAllReduce(send, receive, kCount, type, op, onComm, onStream);
  };
  struct Case {
    const char* words;
    std::function<hcclResult_t()> call;
  } cases[] = {
      {"no data type 12", [&] { return allReduce(static_cast<hcclDataType_t>(12), hcclSum, comm, stream); }},
      {"no reduction 5", [&] { return allReduce(hcclFloat32, hcclOpNone, comm, stream); }},
      {"null", [&] { return allReduce(hcclFloat32, hcclSum, nullptr, stream); }},
      {"communicator", [&] { return allReduce(hcclFloat32, hcclSum, comm, comm); }},
      {"device", [&] { return allReduce(hcclFloat32, hcclSum, comm, streams[1]); }},
      {"cannot be divided", [&] { return hcclAlltoAll(send, receive, kCount - 1, hcclFloat32, comm, stream); }},
      {"a count of", [&] { return hcclAllGather(send, receive, UINT64_MAX, hcclFloat32, comm, stream); }},
      {"senddispls is null",
       [&] { return hcclx_AlltoAllv(send, counts, nullptr, receive, counts, counts, hcclFloat32, comm, stream); }},
      {"displs is null", [&] { return hcclx_AllGatherv(send, receive, counts, nullptr, hcclFloat32, comm, stream); }},
      {"peer 9", [&] { return hcclSend(send, kCount, hcclFloat32, 9, comm, stream); }},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.words);
    ASSERT_HCCL(hcclGroupStart());
    ASSERT_HCCL(hcclGroupStart());
    ASSERT_HCCL(hcclAllReduce(send, receive, kCount, hcclFloat32, hcclSum, comm, stream));
    EXPECT_HCCL_ERROR(one.call(), hcclInvalidArgument, one.words);
    ASSERT_HCCL(hcclGroupEnd());
    EXPECT_HCCL_ERROR(hcclReduce(send, receive, kCount, hcclFloat32, hcclSum, 77, comm, stream), hcclInvalidArgument,
                      "77");
    EXPECT_HCCL_ERROR(hcclGroupEnd(), hcclInvalidArgument, one.words);
    EXPECT_THAT(hcclWords(), testing::HasSubstr("nothing of the group was enqueued"));
  }
  // Outside of a group a wrong call is nobody else's, and nothing of the groups was enqueued.
  EXPECT_HCCL_ERROR(allReduce(hcclFloat32, hcclOpNone, comm, stream), hcclInvalidArgument, "no reduction 5");
  for (size_t r = 0; r < kRanks; ++r) {
    ASSERT_HCCL(hcclGroupStart());
    ASSERT_HCCL(hcclBarrier(comms[r], streams[r]));
    ASSERT_HCCL(hcclGroupEnd());
  }
  wait();
}

TEST_F(HcclOperations, RanksThatCallDifferentThingsAllLearnWhoDiffers) {
  ASSERT_HCCL(hcclAllReduce(pointer(in[0]), pointer(out[0]), kCount, hcclFloat32, hcclSum, comms[0], streams[0]));
  ASSERT_HCCL(hcclAllReduce(pointer(in[1]), pointer(out[1]), kCount, hcclFloat32, hcclSum, comms[1], streams[1]));
  ASSERT_HCCL(hcclAllReduce(pointer(in[2]), pointer(out[2]), kCount - 8, hcclFloat32, hcclSum, comms[2], streams[2]));
  for (size_t r = 0; r < kRanks; ++r) {
    EXPECT_NE(synStreamSynchronize(streams[r]), synSuccess);
    EXPECT_THAT(hpuSynLastError(), testing::AllOf(testing::HasSubstr("112"), testing::HasSubstr("120")));
    hcclResult_t error = hcclSuccess;
    ASSERT_HCCL(hcclCommGetAsyncError(comms[r], &error));
    EXPECT_EQ(error, hcclInvalidUsage);
    // Whatever is called later says the same.
    EXPECT_HCCL_ERROR(hcclBarrier(comms[r], streams[r]), hcclInvalidUsage, "112");
    EXPECT_HCCL_ERROR(hcclSend(pointer(in[r]), 1, hcclFloat32, 0, comms[r], streams[r]), hcclInvalidUsage, "112");
    EXPECT_HCCL_ERROR(hcclCommFinalize(comms[r]), hcclInvalidUsage, "112");
    hcclComm_t part;
    EXPECT_HCCL_ERROR(hcclx_CommSplit(comms[r], 0, 0, &part, nullptr), hcclInvalidUsage, "112");
    ASSERT_HCCL(hcclGroupStart());
    EXPECT_EQ(hcclBarrier(comms[r], streams[r]), hcclInvalidUsage);
    EXPECT_HCCL_ERROR(hcclGroupEnd(), hcclInvalidUsage, "112");
  }
}

}  // namespace
}  // namespace synapse_test
