// SPDX-License-Identifier: Apache-2.0
// What the matrix does not say by numbers alone: where rounding happens, what a barrier promises,
// which calls are refused, and that a refused call changes nothing.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "Numbers.h"
#include "RankRunner.h"

namespace hpu::collectives::testing {
namespace {

#define HPU_OK(expression)                               \
  do {                                                   \
    ::hpu::Status hpuStatus = (expression);              \
    ASSERT_TRUE(hpuStatus.ok()) << hpuStatus.toString(); \
  } while (false)

struct Rank {
  Communicator comm;
  Device device;
  Stream stream;
  Buffer buffer;
  uint64_t at(int64_t bytes = 0) const { return buffer.address() + static_cast<uint64_t>(bytes); }
};

void onRanks(int ranks, const std::function<void(Rank&)>& what) {
  std::vector<Device> devices(testDevices().begin(), testDevices().begin() + ranks);
  auto comms = Communicator::createAll(devices);
  ASSERT_TRUE(comms.ok()) << comms.status().toString();
  std::vector<std::jthread> threads;
  for (size_t r = 0; r < devices.size(); ++r)
    threads.emplace_back([&, r] {
      Rank rank{(*comms)[r], devices[r], Stream::create(devices[r]).value(), devices[r].allocate(4 << 20).value()};
      what(rank);
    });
}

/// Every element of rank r's input is values[r]; the elements of the result, all alike.
std::vector<long double> allReduced(ElementType type, ReduceOp op, int64_t count,
                                    const std::vector<long double>& values) {
  std::vector<long double> results(values.size());
  const int64_t size = elementSize(type);
  onRanks(static_cast<int>(values.size()), [&](Rank& rank) {
    const auto r = static_cast<size_t>(rank.comm.rank());
    std::vector<std::byte> data(static_cast<size_t>(count * size));
    for (int64_t i = 0; i < count; ++i)
      if (isFloat(type))
        encodeFloat(type, values[r], data.data() + i * size);
      else
        encodeInteger(type, static_cast<uint64_t>(static_cast<int64_t>(values[r])), data.data() + i * size);
    HPU_OK(rank.stream.copyToDevice(rank.buffer, data.data(), count * size));
    HPU_OK(rank.comm.allReduce(rank.at(), rank.at(), count, type, op, rank.stream));
    HPU_OK(rank.stream.copyToHost(data.data(), rank.buffer, count * size));
    HPU_OK(rank.stream.synchronize());
    for (int64_t i = 1; i < count; ++i)
      ASSERT_EQ(std::memcmp(data.data(), data.data() + i * size, static_cast<size_t>(size)), 0)
          << "element " << i << " is another one";
    results[r] = isFloat(type) ? decodeFloat(type, data.data())
                               : static_cast<long double>(static_cast<int64_t>(decodeInteger(type, data.data())));
  });
  return results;
}
std::vector<long double> alike(size_t ranks, long double value) {
  return std::vector<long double>(ranks, value);
}

TEST(CollectiveSemantics, Bf16SumsRoundOnceWhateverTheAlgorithm) {
  // 256 + 7 ones: one rounding gives 264 (263 is a tie); in bf16 steps it would stay 256.
  std::vector<long double> values(8, 1);
  values[3] = 256;
  for (int64_t count : {1, 100, 5000, 300000})
    EXPECT_EQ(allReduced(ElementType::kBF16, ReduceOp::kSum, count, values), alike(8, 264)) << count;
}

TEST(CollectiveSemantics, AveragesDivideOnceAtTheEnd) {
  // Divided before, 65504 / 4 and the like would do; summed in f16 first it would be infinite.
  EXPECT_EQ(allReduced(ElementType::kF16, ReduceOp::kAverage, 33, {65504, 65504, 65504, 65504}), alike(4, 65504));
  // Towards zero.
  EXPECT_EQ(allReduced(ElementType::kI32, ReduceOp::kAverage, 33, {-3, -2, -2}), alike(3, -2));
  EXPECT_EQ(allReduced(ElementType::kI64, ReduceOp::kAverage, 33, {3, 2, 3}), alike(3, 2));
}

TEST(CollectiveSemantics, Fp8OverflowIsInfinityOrTheOneNan) {
  for (long double sign : {1.0L, -1.0L}) {
    for (long double value : allReduced(ElementType::kF8E5M2, ReduceOp::kSum, 40, {sign * 57344, sign * 57344}))
      EXPECT_EQ(value, sign * HUGE_VALL);
    for (long double value : allReduced(ElementType::kF8E4M3Ieee, ReduceOp::kSum, 40, {sign * 240, sign * 240}))
      EXPECT_EQ(value, sign * HUGE_VALL);
    for (long double value : allReduced(ElementType::kF8E4M3, ReduceOp::kSum, 40, {sign * 448, sign * 448})) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_FALSE(std::signbit(value)) << "every NaN of a result is the positive one";
    }
  }
}

TEST(CollectiveSemantics, MinAndMaxAreNotSwapped) {
  EXPECT_EQ(allReduced(ElementType::kI8, ReduceOp::kMin, 9, {5, -7, 3}), alike(3, -7));
  EXPECT_EQ(allReduced(ElementType::kI8, ReduceOp::kMax, 9, {5, -7, 3}), alike(3, 5));
  EXPECT_EQ(static_cast<int>(ReduceOp::kMin), 2);
  EXPECT_EQ(static_cast<int>(ReduceOp::kMax), 3);
}

TEST(CollectiveSemantics, NobodyLeavesABarrierBeforeAllHaveCome) {
  constexpr int kRanks = 5, kRounds = 50;
  std::atomic<int> came{0};
  onRanks(kRanks, [&](Rank& rank) {
    for (int round = 1; round <= kRounds; ++round) {
      came.fetch_add(1);
      HPU_OK(rank.comm.barrier(rank.stream));
      HPU_OK(rank.stream.synchronize());
      ASSERT_GE(came.load(), round * kRanks);
    }
  });
}

TEST(CollectiveSemantics, WrongCallsAreRefusedAndChangeNothing) {
  onRanks(3, [&](Rank& rank) {
    Communicator& comm = rank.comm;
    const Stream& stream = rank.stream;
    constexpr auto kF32 = ElementType::kF32;
    constexpr auto kSum = ReduceOp::kSum;
    const uint64_t in = rank.at(), out = rank.at(1 << 20);
    std::vector<float> host(64);
    const auto hostAddress = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(host.data()));
    auto refused = [](const Status& status, const char* what) {
      EXPECT_TRUE(status.code() == StatusCode::kInvalidArgument || status.code() == StatusCode::kNotFound ||
                  status.code() == StatusCode::kOutOfRange)
          << what << ": " << status.toString();
    };
    refused(comm.allReduce(in, out, -1, kF32, kSum, stream), "a negative count");
    refused(comm.allReduce(in, out, INT64_MAX / 2, kF32, kSum, stream), "a count that overflows");
    refused(comm.allReduce(in, out, 10, ElementType::kBool, kSum, stream), "bool");
    refused(comm.allReduce(in, out, 10, ElementType::kI16, kSum, stream), "i16");
    refused(comm.allReduce(in, out, 10, kF32, static_cast<ReduceOp>(5), stream), "operation 5");
    refused(comm.allReduce(hostAddress, out, 10, kF32, kSum, stream), "a host input");
    refused(comm.allReduce(in, hostAddress, 10, kF32, kSum, stream), "a host output");
    refused(comm.allReduce(0, out, 10, kF32, kSum, stream), "no input");
    refused(comm.allReduce(in, in + 4, 10, kF32, kSum, stream), "operands that overlap in part");
    refused(comm.allGather(in + 4, in, 10, kF32, stream), "a gather that overlaps in part");
    refused(comm.allToAll(in, in, 10, kF32, stream), "an all-to-all in place");
    refused(comm.allReduce(in, rank.at((4 << 20) - 8), 10, kF32, kSum, stream), "beyond the end");
    refused(comm.broadcast(in, out, 10, kF32, 3, stream), "root 3 of 3");
    refused(comm.broadcast(in, out, 10, kF32, -1, stream), "root -1");
    refused(comm.relay(in, out, 10, kF32, 0, 3, stream), "relay to rank 3 of 3");
    refused(comm.send(in, 10, kF32, 3, stream), "a send to rank 3 of 3");
    refused(comm.allReduceScaled(in, out, 10, kF32, ReduceOp::kMax, 2, stream), "a scaled maximum");
    refused(comm.allReduceScaled(in, out, 10, ElementType::kI32, kSum, 0.5, stream), "scaled integers");
    refused(comm.allToAllV(in, {1, 2}, {0, 1}, out, {1, 2}, {0, 1}, kF32, stream), "two of three");
    EXPECT_FALSE(comm.allReduce(in, out, 10, kF32, kSum, Stream()).ok()) << "no stream";
    EXPECT_FALSE(groupEnd().ok()) << "a group that was not begun";
    HPU_OK(comm.asyncError());
    // Nothing of a group with a wrong call is enqueued.
    HPU_OK(groupStart());
    Status right = comm.allReduce(in, out, 10, kF32, kSum, stream);
    Status wrong = comm.broadcast(in, out, 10, kF32, 7, stream);
    Status ended = groupEnd();
    EXPECT_TRUE(right.ok()) << right.toString();
    EXPECT_FALSE(wrong.ok() && ended.ok()) << "a group with a wrong call";
    // All ranks were refused alike: the next call is the first of the communicator.
    std::vector<float> ones(10, 1.0f), sum(10);
    HPU_OK(stream.synchronize());
    Stream copy = stream;
    HPU_OK(copy.copyToDevice(in, ones.data(), 40));
    HPU_OK(comm.allReduce(in, out, 10, kF32, kSum, stream));
    HPU_OK(copy.copyToHost(sum.data(), out, 40));
    HPU_OK(stream.synchronize());
    EXPECT_EQ(sum, std::vector<float>(10, 3.0f));
    HPU_OK(comm.finalize(60000));
    EXPECT_EQ(comm.allReduce(in, out, 10, kF32, kSum, stream).code(), StatusCode::kFailedPrecondition);
  });
}

TEST(CollectiveSemantics, AThousandCallsAreQueuedBeforeOneIsWaitedFor) {
  constexpr int kCalls = 1000;
  onRanks(4, [&](Rank& rank) {
    std::vector<int32_t> data(256, 1);
    HPU_OK(rank.stream.copyToDevice(rank.buffer, data.data(), 1024));
    // 4^k modulo 2^32 after k calls: a call that is lost or doubled shows up to 16 calls; then by a
    // maximum with a counter.
    for (int i = 0; i < kCalls; ++i)
      HPU_OK(rank.comm.allReduce(rank.at(), rank.at(), 256, ElementType::kI32, i < 10 ? ReduceOp::kSum : ReduceOp::kMax,
                                 rank.stream));
    HPU_OK(rank.stream.copyToHost(data.data(), rank.buffer, 1024));
    HPU_OK(rank.stream.synchronize());
    EXPECT_EQ(data, std::vector<int32_t>(256, 1 << 20));
  });
}

}  // namespace
}  // namespace hpu::collectives::testing
