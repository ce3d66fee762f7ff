// SPDX-License-Identifier: Apache-2.0
// Work of a stream that something else does: order, errors, waits, device time.
#include "hpu/external_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "ExternalProbe.h"
#include "TinyProgram.h"
#include "hpu/capture.h"
#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/executable.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using testing::ExternalProbe;
using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kMs = 1000 * 1000 * 1000;  // In picoseconds.

class ExternalWorkTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    DeviceOptions options;
    options.driver = GetParam();
    options.index = 0;
    options.hbmBytes = 64 * kMiB;
    device = Device::open(options).value();
    stream = Stream::create(device, {.name = "main"}).value();
    side = Stream::create(device, {.name = "side"}).value();
  }
  static std::shared_ptr<ExternalProbe> probe(std::string name = "all-reduce") {
    return std::make_shared<ExternalProbe>(std::move(name));
  }

  Device device;
  Stream stream, side;
};

TEST_P(ExternalWorkTest, StartsAtItsTurnAndHoldsTheStreamUntilItIsComplete) {
  auto work = probe();
  Event before, after;
  Buffer buffer = device.allocate(kMiB).value();
  ASSERT_TRUE(stream.fill(buffer, 1, kMiB).ok());
  ASSERT_TRUE(stream.record(before).ok());
  ASSERT_TRUE(stream.enqueue(work).ok());
  ASSERT_TRUE(stream.record(after).ok());
  ASSERT_TRUE(work->awaitStart());
  EXPECT_TRUE(before.query().value());
  EXPECT_FALSE(after.query().value());
  EXPECT_FALSE(stream.query().value());
  // Nothing holds the other stream.
  ASSERT_TRUE(side.fill(buffer, 2, 16).ok());
  EXPECT_TRUE(side.synchronize().ok());
  const int64_t arrival = work->turn()->arrivalPs();
  EXPECT_EQ((arrival + 999) / 1000, before.deviceTimeNs().value());
  work->complete(okStatus(), arrival + 3 * kMs);
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_TRUE(after.query().value());
  EXPECT_EQ(after.elapsedNsSince(before).value(), 3000000);
  EXPECT_EQ(device.counters().busyNs[static_cast<int>(Engine::kNic)], 3000000);
}

TEST_P(ExternalWorkTest, TakesOnMoreAsLongAsItIsTheLastAndNobodyAsks) {
  std::vector<int64_t> ready;
  const auto open = [&] {
    auto work = probe();
    work->grows = true;
    EXPECT_TRUE(stream.enqueue(work).ok());
    EXPECT_TRUE(work->awaitStart());
    EXPECT_TRUE(stream.extend(*work, {}, ready));
    EXPECT_TRUE(stream.extend(*work, {}, ready));
    EXPECT_FALSE(side.extend(*work, {}, ready));  // Of another stream.
    EXPECT_EQ(work->additions, 2);
    EXPECT_EQ(work->seals, 0);
    return work;
  };
  const auto isOver = [&](const std::shared_ptr<ExternalProbe>& work) {
    for (int i = 0; i < 10000 && work->seals == 0; ++i) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_FALSE(stream.extend(*work, {}, ready));
    EXPECT_EQ(work->additions, 2);
    EXPECT_EQ(work->seals, 1);
    EXPECT_TRUE(stream.synchronize().ok());
    EXPECT_EQ(work->seals, 1);
  };
  Event event;
  auto first = open();
  ASSERT_TRUE(stream.synchronize().ok());
  isOver(first);
  auto second = open();
  ASSERT_TRUE(side.record(event).ok());  // Something else of the device.
  isOver(second);
  auto third = open();
  EXPECT_FALSE(stream.query().value());  // To ask seals it, so that it ends.
  while (!stream.query().value()) std::this_thread::yield();
  isOver(third);
  auto fourth = open();
  ASSERT_TRUE(device.synchronize().ok());
  isOver(fourth);
  // A thread that has seen a later device time begins something of its own.
  ASSERT_TRUE(side.fill(device.allocate(kMiB).value(), 1, kMiB).ok());
  auto fifth = open();
  ASSERT_TRUE(side.synchronize().ok());
  EXPECT_FALSE(stream.extend(*fifth, {}, ready));
  isOver(fifth);
  auto sixth = open();
  ASSERT_TRUE(device.reset().ok());
  isOver(sixth);
  auto last = open();
  last->complete(internalError("broken"), 0);
  EXPECT_FALSE(stream.extend(*last, {}, ready));
  EXPECT_FALSE(stream.synchronize().ok());
}

TEST_P(ExternalWorkTest, WhatIsOpenToMoreEndsWithItsStreamAndItsDevice) {
  auto first = probe();
  first->grows = true;
  ASSERT_TRUE(stream.enqueue(first).ok());
  ASSERT_TRUE(first->awaitStart());
  stream = Stream();
  for (int i = 0; i < 10000 && first->seals == 0; ++i) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(first->seals, 1);
  auto second = probe();
  second->grows = true;
  ASSERT_TRUE(side.enqueue(second).ok());
  ASSERT_TRUE(second->awaitStart());
  side = Stream();
  device = Device();
  EXPECT_EQ(second->seals, 1);
}

TEST_P(ExternalWorkTest, AnEventCanStandForTheEndOfTheWorkItself) {
  auto work = probe();
  Event end;
  ASSERT_TRUE(stream.enqueue(work, end).ok());
  ASSERT_TRUE(work->awaitStart());
  EXPECT_FALSE(end.isDone());
  EXPECT_FALSE(end.isSeen());
  work->complete(okStatus(), work->turn()->arrivalPs() + kMs);
  while (!end.isDone()) std::this_thread::yield();
  EXPECT_FALSE(end.isSeen());
  Event later;
  ASSERT_TRUE(stream.record(later).ok());
  ASSERT_TRUE(later.synchronize().ok());
  EXPECT_TRUE(end.isSeen());
  EXPECT_EQ(end.deviceTimeNs().value(), later.deviceTimeNs().value());
}

TEST_P(ExternalWorkTest, CompletesInsideOfStart) {
  std::vector<std::shared_ptr<ExternalProbe>> works;
  for (int i = 0; i < 1000; ++i) {
    works.push_back(probe());
    works.back()->onStart = [](ExternalTurn& turn) {
      turn.complete(okStatus(), turn.arrivalPs() + kMs);
      turn.complete(internalError("later calls do nothing"), 0);
    };
    ASSERT_TRUE(stream.enqueue(works.back()).ok());
  }
  Event end;
  ASSERT_TRUE(stream.record(end).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_GE(end.deviceTimeNs().value(), 1000 * 1000000);
  EXPECT_LT(end.deviceTimeNs().value(), 1001 * 1000000);
  for (const auto& work : works) EXPECT_EQ(work->starts, 1);
}

TEST_P(ExternalWorkTest, KnowsWhatIsDirectlyBeforeItAndWhenItArrives) {
  constexpr int kCount = 5;
  std::vector<std::shared_ptr<ExternalProbe>> works;
  std::vector<const ExternalWork*> before(kCount, nullptr);
  std::vector<int64_t> earliest(kCount, -1);
  Event late;
  ASSERT_TRUE(side.record(late).ok());
  for (int i = 0; i < kCount; ++i) {
    works.push_back(probe());
    works[i]->onBehind = [&, i](const ExternalWork& work, int64_t earliestPs) {
      before[i] = &work;
      earliest[i] = earliestPs;
      EXPECT_EQ(works[i]->starts, 0);
    };
    if (i == 3) {  // Something of the program's lies between.
      Event event;
      ASSERT_TRUE(stream.record(event).ok());
    }
    if (i == 2) {  // The program sees a later time than what is before it will end at.
      Buffer buffer = device.allocate(32 * kMiB).value();
      ASSERT_TRUE(side.fill(buffer, 1, 32 * kMiB).ok());
      ASSERT_TRUE(side.record(late).ok());
      ASSERT_TRUE(side.synchronize().ok());
      ASSERT_TRUE(late.deviceTimeNs().ok());
    }
    ASSERT_TRUE(stream.enqueue(works[i]).ok());
  }
  EXPECT_THAT(before, ElementsAre(nullptr, works[0].get(), works[1].get(), nullptr, works[3].get()));
  int64_t end = 0;
  for (int i = 0; i < kCount; ++i) {
    ASSERT_TRUE(works[i]->awaitStart());
    const int64_t arrival = works[i]->turn()->arrivalPs();
    if (before[i]) {
      EXPECT_EQ(arrival, std::max(end, earliest[i])) << i;
    }
    if (i == 2) {
      EXPECT_GT(earliest[i], end);
    }
    end = arrival + 1000;
    works[i]->complete(okStatus(), end);
  }
  ASSERT_TRUE(stream.synchronize().ok());
}

TEST_P(ExternalWorkTest, BehindWhatIsSkippedThereIsNothingBefore) {
  auto failing = probe(), skipped = probe(), later = probe();
  bool told = false;
  later->onBehind = [&](const ExternalWork&, int64_t) { told = true; };
  ASSERT_TRUE(stream.enqueue(failing).ok());
  ASSERT_TRUE(failing->awaitStart());
  ASSERT_TRUE(stream.enqueue(skipped).ok());
  failing->complete(internalError("as asked"), 0);
  EXPECT_FALSE(stream.synchronize().ok());
  ASSERT_TRUE(stream.enqueue(later).ok());
  EXPECT_FALSE(told);
  ASSERT_TRUE(later->awaitStart());
  EXPECT_EQ(skipped->skips, 1);
  later->complete(okStatus(), 0);
  EXPECT_TRUE(stream.synchronize().ok());
}

TEST_P(ExternalWorkTest, StartsInEnqueueWhenItMayAndNothingIsBefore) {
  std::vector<std::thread::id> starters(3);
  std::vector<std::shared_ptr<ExternalProbe>> works;
  for (int i = 0; i < 3; ++i) {
    works.push_back(probe());
    works[i]->inEnqueue = i != 2;
    works[i]->onStart = [&, i](ExternalTurn& turn) {
      starters[i] = std::this_thread::get_id();
      if (i > 0) turn.complete(okStatus(), 0);
    };
  }
  ASSERT_TRUE(stream.enqueue(works[0]).ok());
  EXPECT_EQ(works[0]->starts, 1);
  EXPECT_EQ(starters[0], std::this_thread::get_id());
  ASSERT_TRUE(stream.enqueue(works[1]).ok());
  ASSERT_TRUE(stream.enqueue(works[2]).ok());
  EXPECT_EQ(works[1]->starts, 0);
  // The thread that ends one starts the next ones.
  std::thread ender([&] { works[0]->complete(okStatus(), 0); });
  const std::thread::id id = ender.get_id();
  ender.join();
  EXPECT_EQ(starters[1], id);
  EXPECT_EQ(starters[2], id);
  ASSERT_TRUE(stream.synchronize().ok());
}

TEST_P(ExternalWorkTest, IsNeitherSkippedNorCancelledUnderTheLocksOfEnqueue) {
  // Asking the stream would wait for the lock that its enqueue holds.
  auto failing = probe(), next = probe(), slow = probe();
  ASSERT_TRUE(stream.enqueue(failing).ok());
  ASSERT_TRUE(failing->awaitStart());
  failing->complete(internalError("as asked"), 0);
  std::atomic<int> asked{0};
  next->inEnqueue = true;
  next->onSkipped = [&] {
    stream.query().status().ignore();
    ++asked;
  };
  ASSERT_TRUE(stream.enqueue(next).ok());
  EXPECT_FALSE(stream.synchronize().ok());
  EXPECT_EQ(asked, 1);
  std::atomic<bool> starts{false};
  slow->inEnqueue = true;
  slow->onStart = [&](ExternalTurn&) {
    starts = true;
    std::this_thread::sleep_for(milliseconds(100));
  };
  slow->onCancel = [&](const Status& why) {
    side.query().status().ignore();
    ++asked;
    slow->complete(why, 0);
  };
  std::thread reset([&] {
    while (!starts) std::this_thread::yield();
    EXPECT_TRUE(device.reset().ok());
  });
  EXPECT_TRUE(side.enqueue(slow).ok());
  reset.join();
  EXPECT_EQ(asked, 2);
}

TEST_P(ExternalWorkTest, ThousandsOfItemsInProgressHoldNoThread) {
  std::vector<Stream> streams;
  std::vector<std::shared_ptr<ExternalProbe>> works;
  for (int i = 0; i < 64; ++i) {
    streams.push_back(Stream::create(device).value());
    for (int k = 0; k < 32; ++k) {
      works.push_back(probe());
      ASSERT_TRUE(streams.back().enqueue(works.back()).ok());
    }
  }
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(works[static_cast<size_t>(i) * 32]->awaitStart());
  EXPECT_EQ(works[1]->starts, 0);
  Buffer buffer = device.allocate(kMiB).value();
  ASSERT_TRUE(stream.fill(buffer, 1, 16).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  for (const auto& work : works) {
    ASSERT_TRUE(work->awaitStart());
    work->complete(okStatus(), work->turn()->arrivalPs() + kMs);
  }
  ASSERT_TRUE(device.synchronize().ok());
}

TEST_P(ExternalWorkTest, AnErrorIsTheStreamsAndNamesTheWork) {
  auto work = probe("all-gather"), next = probe(), later = probe();
  ASSERT_TRUE(stream.enqueue(work).ok());
  ASSERT_TRUE(stream.enqueue(next).ok());
  ASSERT_TRUE(work->awaitStart());
  work->complete(unavailable("rank 3 is gone"), 0);
  Status status = stream.synchronize();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("all-gather"));
  EXPECT_THAT(status.message(), HasSubstr("'main'"));
  EXPECT_THAT(status.message(), HasSubstr("rank 3 is gone"));
  EXPECT_EQ(next->starts, 0);
  EXPECT_EQ(next->skips, 1);
  EXPECT_EQ(next->why().code(), StatusCode::kAborted);
  // The error was taken: the stream goes on.
  later->onStart = [](ExternalTurn& turn) { turn.complete(okStatus(), turn.arrivalPs()); };
  ASSERT_TRUE(stream.enqueue(later).ok());
  EXPECT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(later->starts, 1);
}

TEST_P(ExternalWorkTest, ATurnThatIsLetGoIsAnErrorAndNoHang) {
  auto work = probe("lost");
  work->keepTurn = false;
  ASSERT_TRUE(stream.enqueue(work).ok());
  Status status = stream.synchronize();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("lost"));
}

TEST_P(ExternalWorkTest, OtherStreamsAndDevicesWaitForIt) {
  DeviceOptions options;
  options.driver = GetParam();
  options.index = 1;
  options.hbmBytes = 64 * kMiB;
  Device other = Device::open(options).value();
  Stream there = Stream::create(other).value();
  auto work = probe();
  Event done, sideDone, thereDone;
  ASSERT_TRUE(stream.enqueue(work).ok());
  ASSERT_TRUE(stream.record(done).ok());
  ASSERT_TRUE(side.wait(done).ok());
  ASSERT_TRUE(side.record(sideDone).ok());
  ASSERT_TRUE(there.wait(done).ok());
  ASSERT_TRUE(there.record(thereDone).ok());
  ASSERT_TRUE(work->awaitStart());
  EXPECT_FALSE(sideDone.query().value());
  EXPECT_FALSE(thereDone.query().value());
  work->complete(okStatus(), 7 * kMs);
  ASSERT_TRUE(thereDone.synchronize().ok());
  ASSERT_TRUE(sideDone.synchronize().ok());
  EXPECT_EQ(thereDone.deviceTimeNs().value(), 7000000);
  EXPECT_EQ(sideDone.deviceTimeNs().value(), 7000000);
}

TEST_P(ExternalWorkTest, WhoWaitsHelps) {
  auto work = probe();
  work->onHelp = [&](std::chrono::steady_clock::time_point) { work->complete(okStatus(), work->turn()->arrivalPs()); };
  Event done;
  ASSERT_TRUE(stream.enqueue(work).ok());
  ASSERT_TRUE(stream.record(done).ok());
  ASSERT_TRUE(side.wait(done).ok());
  // Through another stream's wait as well.
  ASSERT_TRUE(side.synchronize(60000).ok());
  EXPECT_EQ(work->helps, 1);
}

TEST_P(ExternalWorkTest, WhatIsBehindOtherWorkThatAHelperCompletesGoesOn) {
  auto helped = probe("helped"), other = probe("other"), behind = probe("behind");
  bool begun = false;
  helped->onHelp = [&](std::chrono::steady_clock::time_point) {
    // As an executor does that drives all operations of a communicator.
    ASSERT_TRUE(other->awaitStart());
    // The worker that started it sleeps by then; one that does not would hide the failure.
    std::this_thread::sleep_for(milliseconds(50));
    other->complete(okStatus(), 0);
    // A peer waits for this before it lets the helped work end.
    begun = behind->awaitStart();
    helped->complete(okStatus(), 0);
  };
  behind->onStart = [](ExternalTurn& turn) { turn.complete(okStatus(), 0); };
  ASSERT_TRUE(stream.enqueue(helped).ok());
  ASSERT_TRUE(side.enqueue(other).ok());
  ASSERT_TRUE(side.enqueue(behind).ok());
  ASSERT_TRUE(helped->awaitStart());
  EXPECT_TRUE(stream.synchronize(120000).ok());
  EXPECT_TRUE(begun);
  EXPECT_TRUE(side.synchronize().ok());
}

TEST_P(ExternalWorkTest, AHelperThatRunsOutOfTimeIsReplaced) {
  auto work = probe();
  std::atomic<int> inside{0}, most{0};
  std::atomic<bool> over{false};
  work->onHelp = [&](std::chrono::steady_clock::time_point until) {
    most = std::max<int>(most, ++inside);
    while (!over && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(milliseconds(1));
    --inside;
  };
  ASSERT_TRUE(stream.enqueue(work).ok());
  ASSERT_TRUE(work->awaitStart());
  std::thread impatient([&] { EXPECT_EQ(stream.synchronize(100).code(), StatusCode::kDeadlineExceeded); });
  while (work->helps == 0) std::this_thread::sleep_for(milliseconds(1));
  std::thread patient([&] { EXPECT_TRUE(stream.synchronize(60000).ok()); });
  impatient.join();
  // The patient one helps now.
  const int before = work->helps;
  for (int i = 0; i < 10000 && inside == 0; ++i) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(inside, 1);
  EXPECT_GE(work->helps, 2);
  EXPECT_LE(work->helps, before + 1);
  work->complete(okStatus(), 0);
  over = true;
  patient.join();
  EXPECT_EQ(most, 1);  // One at a time.
}

TEST_P(ExternalWorkTest, AWaitGoesOnPastItsDeadlineWhileTheWorkAdvances) {
  auto slow = probe("slow"), stuck = probe("stuck");
  ASSERT_TRUE(stream.enqueue(slow).ok());
  ASSERT_TRUE(slow->awaitStart());
  std::thread worker([&] {
    for (int i = 0; i < 40; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
      ++slow->steps;
    }
    slow->complete(okStatus(), 0);
  });
  EXPECT_TRUE(stream.synchronize(200).ok());
  worker.join();
  stuck->steps = 17;
  ASSERT_TRUE(stream.enqueue(stuck).ok());
  Status status = stream.synchronize(50);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("'stuck' is in progress"));
  ASSERT_TRUE(stuck->awaitStart());
  EXPECT_EQ(stream.synchronize(0).code(), StatusCode::kDeadlineExceeded);
  stuck->complete(okStatus(), 0);
  EXPECT_TRUE(stream.synchronize().ok());
}

TEST_P(ExternalWorkTest, AResetCancelsWhatIsInProgressAndSkipsTheRest) {
  auto running = probe("running"), queued = probe("queued"), later = probe();
  running->onCancel = [&](const Status& why) { running->complete(why, 0); };
  ASSERT_TRUE(stream.enqueue(running).ok());
  ASSERT_TRUE(stream.enqueue(queued).ok());
  ASSERT_TRUE(running->awaitStart());
  Event end;
  ASSERT_TRUE(stream.record(end).ok());
  ASSERT_TRUE(device.reset(60000).ok());
  EXPECT_EQ(running->cancels, 1);
  EXPECT_EQ(running->skips, 0);
  EXPECT_EQ(queued->starts, 0);
  EXPECT_EQ(queued->skips, 1);
  EXPECT_EQ(queued->why().code(), StatusCode::kCancelled);
  later->onStart = [](ExternalTurn& turn) { turn.complete(okStatus(), turn.arrivalPs() + kMs); };
  ASSERT_TRUE(stream.enqueue(later).ok());
  EXPECT_TRUE(stream.synchronize().ok());
  EXPECT_GE(device.counters().deviceNs, 1000000);
}

TEST_P(ExternalWorkTest, AResetOfWorkThatDoesNotEndSaysSo) {
  auto stuck = probe("stuck");
  ASSERT_TRUE(stream.enqueue(stuck).ok());
  ASSERT_TRUE(stuck->awaitStart());
  Status status = device.reset(50);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("'stuck'"));
  stuck->complete(okStatus(), 0);
  EXPECT_TRUE(device.reset(60000).ok());
}

TEST_P(ExternalWorkTest, AnAllocationDoesNotWaitForWorkThatStandsBehindIt) {
  auto work = probe();
  Buffer large = device.allocate(48 * kMiB, "held").value();
  ASSERT_TRUE(stream.enqueue(work).ok());
  ASSERT_TRUE(work->awaitStart());
  ASSERT_TRUE(stream.fill(large, 1, 16).ok());
  ASSERT_TRUE(side.fill(large, 1, 16).ok());
  large = Buffer();
  // Nothing completes the work but this thread, afterwards.
  auto more = device.allocate(48 * kMiB, "more");
  EXPECT_EQ(more.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(more.status().message(), HasSubstr("stands behind external work"));
  work->complete(okStatus(), 0);
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_TRUE(device.allocate(48 * kMiB, "more").ok());
}

TEST_P(ExternalWorkTest, AnAllocationWaitsForWorkBehindItThatAdvances) {
  auto work = probe();
  Buffer large = device.allocate(48 * kMiB, "held").value();
  ASSERT_TRUE(stream.enqueue(work).ok());
  ASSERT_TRUE(work->awaitStart());
  ASSERT_TRUE(stream.fill(large, 1, 16).ok());
  large = Buffer();
  std::thread advances([&] {
    for (int i = 0; i < 30; ++i) {
      ++work->steps;
      std::this_thread::sleep_for(milliseconds(100));
    }
    work->complete(okStatus(), 0);
  });
  auto more = device.allocate(48 * kMiB, "more");
  EXPECT_TRUE(more.ok()) << more.status().message();
  advances.join();
}

TEST_P(ExternalWorkTest, ACaptureRefusesIt) {
  auto work = probe();
  CaptureSession session = CaptureSession::begin(stream).value();
  Status status = stream.enqueue(work);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("Stream::enqueue"));
  EXPECT_FALSE(session.end().ok());
  EXPECT_EQ(work->starts + work->skips, 0);
  EXPECT_EQ(stream.enqueue(nullptr).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Stream().enqueue(work).code(), StatusCode::kFailedPrecondition);
}

TEST_P(ExternalWorkTest, WhatItOwnsIsReleasedBeforeItIsDone) {
  auto work = probe();
  std::weak_ptr<ExternalProbe> watch = work;
  work->onStart = [](ExternalTurn& turn) { turn.complete(okStatus(), 0); };
  work->keepTurn = false;
  ASSERT_TRUE(stream.enqueue(std::move(work)).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_TRUE(watch.expired());
}

TEST_P(ExternalWorkTest, ManyThreadsWaitWhileOthersComplete) {
  std::vector<std::shared_ptr<ExternalProbe>> works;
  for (int i = 0; i < 200; ++i) {
    works.push_back(probe());
    Event done;
    ASSERT_TRUE((i % 2 ? stream : side).enqueue(works.back()).ok());
    ASSERT_TRUE((i % 2 ? stream : side).record(done).ok());
    ASSERT_TRUE((i % 2 ? side : stream).wait(done).ok());
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back([&, t] { EXPECT_TRUE((t % 2 ? stream : side).synchronize().ok()); });
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      for (size_t i = static_cast<size_t>(t); i < works.size(); i += 2) {
        ASSERT_TRUE(works[i]->awaitStart());
        works[i]->complete(okStatus(), works[i]->turn()->arrivalPs() + 1000);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(device.counters().deviceNs, 200);
}

TEST_P(ExternalWorkTest, AnOutputOfALaunchStartsItInTheMiddle) {
  Executable program = Executable::load(device, testing::toRecipe(testing::copyThenMultiplyProgram(256))).value();
  const int64_t bytes = 256 * 256 * 4;
  Buffer in = device.allocate(bytes).value(), first = device.allocate(bytes).value(),
         second = device.allocate(bytes).value();
  auto work = probe();
  work->onStart = [](ExternalTurn& turn) { turn.complete(okStatus(), turn.arrivalPs() + kMs); };
  Event copied, end, network;
  LaunchArguments launch;
  launch.inputs = {in.address()};
  launch.outputs = {first.address(), second.address()};
  launch.events = {{0, copied}};
  ASSERT_TRUE(program.launch(stream, launch).ok());
  ASSERT_TRUE(stream.record(end).ok());
  ASSERT_TRUE(side.wait(copied).ok());
  ASSERT_TRUE(side.enqueue(work).ok());
  ASSERT_TRUE(side.record(network).ok());
  ASSERT_TRUE(device.synchronize().ok());
  EXPECT_LT(copied.deviceTimeNs().value(), end.deviceTimeNs().value());
  EXPECT_EQ(network.deviceTimeNs().value(), copied.deviceTimeNs().value() + 1000000);
}

TEST(ExternalWork, ADeviceThatClosesWaitsForItNoLongerThanItMay) {
  ::setenv("HPU_WAIT_TIMEOUT_MS", "100", 1);
  for (std::string driver : {"sim", "null"}) {
    auto stuck = std::make_shared<ExternalProbe>("stuck"), queued = std::make_shared<ExternalProbe>("queued");
    {
      DeviceOptions options;
      options.driver = driver;
      options.hbmBytes = 64 * kMiB;
      Device device = Device::open(options).value();
      Stream stream = Stream::create(device).value();
      ASSERT_TRUE(stream.enqueue(stuck).ok());
      ASSERT_TRUE(stream.enqueue(queued).ok());
      ASSERT_TRUE(stuck->awaitStart());
    }
    EXPECT_EQ(stuck->cancels, 1);
    EXPECT_EQ(queued->skips, 1);
    // Too late, and harmless.
    stuck->complete(okStatus(), 5);
    EXPECT_GE(stuck->turn()->arrivalPs(), 0);
  }
  ::unsetenv("HPU_WAIT_TIMEOUT_MS");
}

INSTANTIATE_TEST_SUITE_P(Drivers, ExternalWorkTest, ::testing::Values("sim", "null"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace hpu
