// SPDX-License-Identifier: Apache-2.0
// Collectives, sends and receives in captures: replays give what the uncaptured calls give.
#include "hpu/capture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "hpu/event.h"
#include "hpu/executable.h"
#include "tests/unit/collectives/communicator/World.h"
#include "tests/unit/runtime/TinyProgram.h"

namespace hpu::collectives {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using Values = std::vector<float>;
constexpr auto kF32 = ElementType::kF32;
constexpr auto kI32 = ElementType::kI32;
constexpr int64_t kN = 32, kElements = kN * kN, kBytes = kElements * 4, kHalf = kBytes / 2;

Status firstError(std::initializer_list<Status> list) {
  for (const Status& status : list)
    if (!status.ok()) return status;
  return okStatus();
}

/// A rank of a data-parallel step. Its matrix is the step's input above and what it has learnt below; the gradient is
/// the matrix's square, averaged over the ranks; from its square comes what is learnt.
struct Trainer {
  Communicator comm;
  Stream stream, side;
  Executable square;
  Buffer matrix, gradient, sum, learnt, other;
  std::vector<Values> inputs;
  Values result = Values(kElements / 2);

  Trainer(World& world, int rank) {
    auto at = static_cast<size_t>(rank);
    Device& device = world.devices[at];
    comm = world.comms[at];
    stream = world.streams[at];
    side = Stream::create(device, {.name = "network"}).value();
    // With a workspace, which launches outside of the graph share.
    square = Executable::load(device, hpu::testing::toRecipe(hpu::testing::copyThenMultiplyProgram(kN, true))).value();
    for (Buffer* buffer : {&matrix, &gradient, &sum, &learnt, &other}) *buffer = device.allocate(kBytes).value();
    for (int step = 0; step < 4; ++step) {
      Values& values = inputs.emplace_back(kElements / 2);
      for (size_t i = 0; i < values.size(); ++i)
        values[i] =
            static_cast<float>(static_cast<int>((i * 7 + at * 13 + static_cast<size_t>(step) * 5) % 17) - 8) / 37;
    }
  }
  Status reset() {
    return firstError({stream.fill(matrix, 0x3c, kBytes), stream.fill(other, 0, kBytes), stream.synchronize()});
  }
  Status update() {
    return firstError({square.launch(stream, {sum}, {learnt}), stream.copyOnDevice(matrix, kHalf, learnt, 0, kHalf),
                       stream.copyToHost(result.data(), learnt, kHalf)});
  }
  Status step(const Values& input) {
    return firstError(
        {stream.copyToDevice(matrix, input.data(), kHalf), square.launch(stream, {matrix}, {gradient}),
         comm.allReduceScaled(gradient.address(), sum.address(), kElements, kF32, ReduceOp::kSum, 0.125, stream),
         update()});
  }
  /// The all-reduce on a stream of its own, and compute beside it.
  Status overlappedStep(const Values& input) {
    Event forked, joined;
    return firstError({stream.copyToDevice(matrix, input.data(), kHalf), square.launch(stream, {matrix}, {gradient}),
                       stream.record(forked), side.wait(forked),
                       comm.allReduce(gradient.address(), sum.address(), kElements, kF32, ReduceOp::kAverage, side),
                       side.record(joined), square.launch(stream, {matrix}, {other}), stream.wait(joined), update()});
  }
  template <typename Step>
  StatusOr<GraphInstance> capture(const Step& step) {
    auto session = CaptureSession::begin(stream);
    if (!session.ok()) return session.status();
    if (Status status = step(); !status.ok()) return status;
    auto graph = session->end();
    return graph.ok() ? graph->instantiate() : StatusOr<GraphInstance>(graph.status());
  }
};

struct Training {
  std::vector<Values> results;  ///< By step.
  std::vector<int64_t> tookNs;
};

/// Four steps of each rank; captured ones are replayed with the inputs bound in turn.
std::vector<Training> train(bool captured, bool overlapped) {
  World world = World::make(8);
  std::vector<Training> runs(8);
  world.all([&](int rank) -> Status {
    Trainer trainer(world, rank);
    Training& run = runs[static_cast<size_t>(rank)];
    auto step = [&](const Values& input) { return overlapped ? trainer.overlappedStep(input) : trainer.step(input); };
    Status status = trainer.reset();
    if (!status.ok()) return status;
    StatusOr<GraphInstance> instance = GraphInstance();
    if (captured) instance = trainer.capture([&] { return step(trainer.inputs[0]); });
    if (!instance.ok()) return instance.status();
    for (size_t i = 0; i < trainer.inputs.size(); ++i) {
      Event start, end;
      status = firstError(
          {i > 0 && captured ? instance->rebindSource(trainer.inputs[i - 1].data(), trainer.inputs[i].data(), kHalf)
                             : okStatus(),
           trainer.stream.record(start), captured ? instance->replay(trainer.stream) : step(trainer.inputs[i]),
           trainer.stream.record(end), trainer.stream.synchronize()});
      if (!status.ok()) return status;
      run.results.push_back(trainer.result);
      run.tookNs.push_back(end.elapsedNsSince(start).value());
    }
    return okStatus();
  });
  return runs;
}

class CapturedTraining : public ::testing::TestWithParam<bool> {};

TEST_P(CapturedTraining, AStepReplaysOnEightDevicesAndEqualsTheUncapturedOne) {
  const std::vector<Training> plain = train(false, GetParam()), replayed = train(true, GetParam()),
                              again = train(true, GetParam());
  for (size_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(replayed[rank].results, plain[rank].results) << "rank " << rank;
    EXPECT_EQ(replayed[rank].tookNs, again[rank].tookNs) << "rank " << rank;
    EXPECT_EQ(replayed[rank].tookNs, plain[rank].tookNs) << "rank " << rank;
    EXPECT_EQ(replayed[rank].results, replayed[0].results) << "rank " << rank;
  }
  ASSERT_EQ(plain[0].results.size(), 4u);
  EXPECT_NE(plain[0].results[0], plain[0].results[1]);
  EXPECT_GT(replayed[0].tookNs[0], 0);
}

INSTANTIATE_TEST_SUITE_P(, CapturedTraining, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Overlapped" : "OneByOne"; });

TEST(CapturedCollectives, OneThreadReplaysAllRanksAndOthersReplayToo) {
  World world = World::make(4);
  std::vector<GraphInstance> instances;
  std::vector<Buffer> buffers;
  for (int rank = 0; rank < 4; ++rank) {
    auto at = static_cast<size_t>(rank);
    buffers.push_back(world.put(rank, std::vector<int32_t>(100, rank + 1)));
    CaptureSession session = CaptureSession::begin(world.streams[at]).value();
    ASSERT_TRUE(
        world.comms[at]
            .allReduce(buffers[at].address(), buffers[at].address(), 100, kI32, ReduceOp::kSum, world.streams[at])
            .ok());
    CapturedGraph graph = session.end().value();
    EXPECT_THAT(graph.describe(), ::testing::ElementsAre("branch 0: external work 'all-reduce'"));
    instances.push_back(graph.instantiate().value());
  }
  for (size_t at = 0; at < 4; ++at) ASSERT_TRUE(instances[at].replay(world.streams[at]).ok());
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(world.get<int32_t>(rank, buffers[static_cast<size_t>(rank)], 100), std::vector<int32_t>(100, 10));
  // On threads of their own, and one rank does not replay but calls.
  world.all([&](int rank) {
    auto at = static_cast<size_t>(rank);
    if (rank != 2) return instances[at].replay(world.streams[at]);
    return world.comms[at].allReduce(buffers[at].address(), buffers[at].address(), 100, kI32, ReduceOp::kSum,
                                     world.streams[at]);
  });
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(world.get<int32_t>(rank, buffers[static_cast<size_t>(rank)], 100), std::vector<int32_t>(100, 40));
}

TEST(CapturedCollectives, EveryOperationAndGroupsReplay) {
  constexpr int kRanks = 3;
  constexpr int64_t kCount = 60;
  World world = World::make(kRanks);
  world.all([&](int rank) -> Status {
    auto at = static_cast<size_t>(rank);
    Communicator comm = world.comms[at];
    Stream stream = world.streams[at], side = Stream::create(world.devices[at]).value();
    const int next = (rank + 1) % kRanks, previous = (rank + kRanks - 1) % kRanks;
    constexpr size_t kOutputs = 11;
    std::vector<int32_t> mine(kCount * kRanks);
    for (size_t i = 0; i < mine.size(); ++i) mine[i] = static_cast<int32_t>(i + at * 1000);
    const Buffer buffer = world.put(rank, mine);
    const uint64_t in = buffer.address();
    const std::vector<int64_t> counts(kRanks, 20), places{0, 20, 40};
    auto run = [&](std::vector<Buffer>& outs) -> Status {
      Event forked, joined;
      auto out = [&](size_t i) { return outs[i].address(); };
      return firstError(
          {comm.allReduce(in, out(0), kCount, kI32, ReduceOp::kMax, stream),
           comm.reduceScatter(in, out(1), kCount, kI32, ReduceOp::kSum, stream),
           comm.reduce(in, out(2), kCount, kI32, ReduceOp::kSum, 1, stream),
           comm.allGather(in, out(3), kCount, kI32, stream), comm.allToAll(in, out(4), kCount, kI32, stream),
           comm.broadcast(in, out(5), kCount, kI32, 2, stream), comm.gather(in, out(6), kCount, kI32, 0, stream),
           comm.scatter(in, out(7), kCount, kI32, 1, stream), comm.barrier(stream),
           comm.allToAllV(in, counts, places, out(8), counts, places, kI32, stream), stream.record(forked),
           side.wait(forked),
           // A group over two branches, each rank in another order.
           groupStart(),
           rank == 0 ? comm.send(in, kCount, kI32, next, stream) : comm.receive(out(9), kCount, kI32, previous, side),
           rank == 0 ? comm.receive(out(9), kCount, kI32, previous, side) : comm.send(in, kCount, kI32, next, stream),
           comm.allReduce(in, out(10), kCount, kI32, ReduceOp::kSum, stream), groupEnd(), side.record(joined),
           stream.wait(joined)});
    };
    auto outputs = [&] {
      std::vector<Buffer> list;
      for (size_t i = 0; i < kOutputs; ++i) list.push_back(world.put(rank, std::vector<int32_t>(mine.size(), -1)));
      return list;
    };
    std::vector<Buffer> plain = outputs(), captured = outputs(), bound = outputs();
    Status status = firstError({run(plain), stream.synchronize(), side.synchronize()});
    if (!status.ok()) return status;
    auto session = CaptureSession::begin(stream);
    if (!session.ok()) return session.status();
    if (status = run(captured); !status.ok()) return status;
    auto graph = session->end();
    if (!graph.ok()) return graph.status();
    GraphInstance instance = graph->instantiate().value();
    auto same = [&](const std::vector<Buffer>& outs) {
      for (size_t i = 0; i < kOutputs; ++i)
        if (world.get<int32_t>(rank, outs[i], mine.size()) != world.get<int32_t>(rank, plain[i], mine.size()))
          return internalError("output " + std::to_string(i));
      return okStatus();
    };
    status = firstError({instance.replay(stream), instance.replay(stream), stream.synchronize(), same(captured)});
    if (!status.ok()) return status;
    for (size_t i = 0; i < kOutputs; ++i)
      // Of a reduce and a gather only the root has an output.
      if (status = instance.rebind(captured[i], bound[i]);
          !status.ok() && !((i == 2 && rank != 1) || (i == 6 && rank != 0)))
        return status;
    captured.clear();
    return firstError({instance.replay(stream), stream.synchronize(), same(bound)});
  });
}

TEST(CapturedCollectives, AWrongCallFailsItsCapture) {
  World world = World::make(2);
  Buffer buffer = world.put(0, Values(100));
  const uint64_t in = buffer.address();
  Communicator comm = world.comms[0];
  Stream stream = world.streams[0], other = Stream::create(world.devices[0]).value();
  auto end = [&](auto calls) {
    CaptureSession session = CaptureSession::begin(stream).value();
    calls();
    return session.end().status().toString();
  };
  EXPECT_THAT(end([&] { comm.allReduce(in, in, 101, kF32, ReduceOp::kSum, stream).ignore(); }),
              HasSubstr("behind its allocation"));
  EXPECT_THAT(end([&] { comm.allReduce(in, in, -1, kF32, ReduceOp::kSum, stream).ignore(); }), HasSubstr("-1"));
  EXPECT_THAT(end([&] { comm.send(in, 10, kF32, 2, stream).ignore(); }), HasSubstr("not a rank of 2"));
  EXPECT_THAT(end([&] { comm.allToAllV(in, {1}, {0}, in, {1}, {0}, kF32, stream).ignore(); }), HasSubstr("lists of 2"));
  // Of a group nothing is recorded; the first call was right.
  EXPECT_THAT(end([&] {
                groupStart().ignore();
                comm.send(in, 10, kF32, 1, stream).ignore();
                comm.receive(in, 1000, kF32, 1, stream).ignore();
                EXPECT_FALSE(groupEnd().ok());
              }),
              HasSubstr("behind its allocation"));
  // A group in a capture and out of it.
  EXPECT_THAT(end([&] {
                groupStart().ignore();
                comm.send(in, 10, kF32, 1, stream).ignore();
                comm.receive(in + 200, 10, kF32, 1, other).ignore();
                EXPECT_THAT(groupEnd().message(), HasSubstr("groups of their own"));
              }),
              HasSubstr("groups of their own"));
  // Nothing of that was enqueued: the ranks are still together.
  world.all([&](int rank) {
    return firstError({world.comms[static_cast<size_t>(rank)].barrier(world.streams[static_cast<size_t>(rank)]),
                       world.streams[static_cast<size_t>(rank)].synchronize()});
  });
}

TEST(CapturedCollectives, ARankThatCannotEnqueueInAReplayFailsTheOthers) {
  World world = World::make(4);
  std::vector<Status> results = world.each([&](int rank) -> Status {
    auto at = static_cast<size_t>(rank);
    Stream& stream = world.streams[at];
    Communicator comm = world.comms[at];
    Buffer in = world.put(rank, Values(100)), out = world.put(rank, Values(200));
    CaptureSession session = CaptureSession::begin(stream).value();
    Status status = firstError(
        {stream.fill(in, 0, 400), comm.allReduce(in.address(), out.address(), 100, kF32, ReduceOp::kSum, stream)});
    if (!status.ok()) return status;
    GraphInstance instance = session.end().value().instantiate().value();
    // Input and output overlap then, which only the replay finds out.
    if (rank == 1) status = instance.rebind(in.address(), out.address() + 200, 400);
    if (!status.ok()) return status;
    if (status = instance.replay(stream); !status.ok()) return status;
    return stream.synchronize();
  });
  EXPECT_THAT(results[1].toString(), HasSubstr("operation 1 of the graph ('all-reduce'"));
  EXPECT_THAT(results[1].toString(), HasSubstr("overlap"));
  for (size_t rank : {0, 2, 3}) EXPECT_THAT(results[rank].toString(), HasSubstr("overlap")) << rank;
}

TEST(CapturedCollectives, AFailureBeforeACollectiveOfAReplayFailsTheOthers) {
  World world = World::make(3);
  std::vector<Status> results = world.each([&](int rank) -> Status {
    auto at = static_cast<size_t>(rank);
    Stream& stream = world.streams[at];
    Buffer in = world.put(rank, Values(100));
    CaptureSession session = CaptureSession::begin(stream).value();
    Status status = world.comms[at].allReduce(in.address(), in.address(), 100, kF32, ReduceOp::kSum, stream);
    if (!status.ok()) return status;
    GraphInstance instance = session.end().value().instantiate().value();
    if (rank == 2) status = stream.callHost([] { return dataLoss("a bad batch"); });
    return firstError({status, instance.replay(stream), stream.synchronize()});
  });
  for (const Status& status : results) EXPECT_THAT(status.toString(), HasSubstr("a bad batch"));
}

TEST(CapturedCollectives, AGraphThatIsGoneFinishesItsReplayAndKeepsItsCommunicator) {
  World world = World::make(2);
  std::array<GraphInstance, 2> instances;
  std::array<Buffer, 2> buffers;
  for (int rank = 0; rank < 2; ++rank) {
    auto at = static_cast<size_t>(rank);
    buffers[at] = world.put(rank, std::vector<int32_t>(1000, 3));
    CaptureSession session = CaptureSession::begin(world.streams[at]).value();
    ASSERT_TRUE(
        world.comms[at]
            .allReduce(buffers[at].address(), buffers[at].address(), 1000, kI32, ReduceOp::kSum, world.streams[at])
            .ok());
    instances[at] = session.end().value().instantiate().value();
  }
  world.comms.clear();  // The graphs have them.
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(instances[0].replay(world.streams[0]).ok());
    ASSERT_TRUE(instances[1].replay(world.streams[1]).ok());
    // What they have enqueued may still be in flight.
    if (round == 1) instances = {};
  }
  EXPECT_EQ(world.get<int32_t>(0, buffers[0], 1000), std::vector<int32_t>(1000, 12));
  EXPECT_EQ(world.get<int32_t>(1, buffers[1], 1000), std::vector<int32_t>(1000, 12));
}

TEST(CapturedCollectives, MemoryThatTheProgramHasLetGoStaysTheGraphs) {
  World world = World::make(2);
  std::array<GraphInstance, 2> instances;
  std::array<std::vector<int32_t>, 2> results;
  for (int rank = 0; rank < 2; ++rank) {
    const auto at = static_cast<size_t>(rank);
    Stream& stream = world.streams[at];
    results[at].resize(1000);
    Buffer own = world.devices[at].allocate(4000).value();
    CaptureSession session = CaptureSession::begin(stream).value();
    Buffer pooled = stream.allocate(4000).value();
    ASSERT_TRUE(stream.fill(pooled.address(), 3, 4, 1000).ok());
    ASSERT_TRUE(world.comms[at].allReduce(pooled.address(), own.address(), 1000, kI32, ReduceOp::kSum, stream).ok());
    ASSERT_TRUE(stream.copyToHost(results[at].data(), own, 4000).ok());
    ASSERT_TRUE(stream.free(std::move(pooled)).ok());
    instances[at] = session.end().value().instantiate().value();
  }
  for (int round = 0; round < 2; ++round) {
    for (std::vector<int32_t>& result : results) result.assign(1000, 0);
    for (size_t at : {0u, 1u}) ASSERT_TRUE(instances[at].replay(world.streams[at]).ok());
    for (size_t at : {0u, 1u}) ASSERT_TRUE(world.streams[at].synchronize().ok());
    for (const std::vector<int32_t>& result : results) EXPECT_EQ(result, std::vector<int32_t>(1000, 6));
  }
}

TEST(CapturedCollectives, AReplayOfAnAbortedCommunicatorGivesItsError) {
  World world = World::make(2);
  Buffer buffer = world.put(0, Values(100));
  CaptureSession session = CaptureSession::begin(world.streams[0]).value();
  ASSERT_TRUE(
      world.comms[0].allReduce(buffer.address(), buffer.address(), 100, kF32, ReduceOp::kSum, world.streams[0]).ok());
  GraphInstance instance = session.end().value().instantiate().value();
  ASSERT_TRUE(world.comms[0].abort("the test is over").ok());
  EXPECT_THAT(instance.replay(world.streams[0]).toString(), HasSubstr("the test is over"));
  // Nor can it be captured.
  session = CaptureSession::begin(world.streams[0]).value();
  EXPECT_FALSE(world.comms[0].barrier(world.streams[0]).ok());
  EXPECT_THAT(session.end().status().toString(), HasSubstr("the test is over"));
}

}  // namespace
}  // namespace hpu::collectives
