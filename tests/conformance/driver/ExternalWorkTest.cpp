// SPDX-License-Identifier: Apache-2.0
// What every driver must do with work that somebody else executes (a collective's).
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "DriverFixture.h"
#include "ExternalProbe.h"

namespace hpu::driver {
namespace {

class DriverExternalWork : public DriverFixture {};

TEST_P(DriverExternalWork, ExternalWorkHoldsItsQueueUntilItIsComplete) {
  QueueId q = queue(), free = queue("free"), waiting = queue("waiting");
  Ticket before = submit(q, Fill{base, 1, kMiB});
  auto work = std::make_shared<testing::ExternalProbe>("sum");
  Ticket external = submit(q, External{work}, {.label = "sum"});
  Ticket after = submit(q, Fill{base, 2, 16});
  submit(waiting, WaitFor{external, nullptr});
  Ticket behind = submit(waiting, Marker{});
  ASSERT_TRUE(work->awaitStart());
  EXPECT_TRUE(device->done(before));
  wait(submit(free, Fill{base + kMiB, 1, 16}));
  EXPECT_FALSE(device->done(external));
  EXPECT_FALSE(device->done(behind));
  EXPECT_EQ(device->wait(after, 20).code(), StatusCode::kDeadlineExceeded);
  std::atomic<int> calls{0};
  device->whenDone(external, [&] { ++calls; });
  const int64_t arrival = work->turn()->arrivalPs();
  work->complete(okStatus(), arrival + 5000000);
  auto network = span(external);
  waitForCalls(calls, 1);
  EXPECT_EQ(network.endNs - (arrival + 999) / 1000, 5000);
  EXPECT_EQ(span(before).endNs, (arrival + 999) / 1000);
  EXPECT_GE(span(after).startNs + 1, network.endNs);
  EXPECT_GE(span(behind).endNs, network.endNs);
  EXPECT_EQ(device->counters().busyNs[static_cast<int>(Engine::kNic)], 5000);
  EXPECT_EQ(device->submit(q, External{}, {}).status().code(), StatusCode::kInvalidArgument);
}

TEST_P(DriverExternalWork, WorkDoneRisesWithWorkAndOnlyThen) {
  QueueId q = queue();
  const uint64_t before = device->workDone();
  EXPECT_EQ(device->workDone(), before);
  for (int i = 0; i < 5; ++i) wait(submit(q, Fill{base, 1, 16}));
  const uint64_t after = device->workDone();
  EXPECT_GE(after, before + 5);
  auto work = std::make_shared<testing::ExternalProbe>();
  Ticket external = submit(q, External{work});
  ASSERT_TRUE(work->awaitStart());
  // External work has to tell whether it advances.
  EXPECT_EQ(device->workDone(), after);
  EXPECT_EQ(device->workDone(), after);
  work->complete(okStatus(), 0);
  wait(external);
  EXPECT_GT(device->workDone(), after);
}

TEST_P(DriverExternalWork, ExternalWorkEndsOnceOnWhateverThread) {
  std::vector<QueueId> queues = {queue("a"), queue("b"), queue("c")};
  std::vector<std::thread> threads;
  std::vector<Ticket> tickets;
  std::vector<std::shared_ptr<testing::ExternalProbe>> works;
  for (int i = 0; i < 60; ++i) {
    works.push_back(std::make_shared<testing::ExternalProbe>());
    if (i % 3 == 0) works.back()->onStart = [](ExternalTurn& turn) { turn.complete(okStatus(), 0); };
    tickets.push_back(submit(queues[static_cast<size_t>(i) % queues.size()], External{works.back()}));
  }
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (const auto& work : works) {
        ASSERT_TRUE(work->awaitStart());
        work->complete(okStatus(), 0);
      }
    });
  for (Ticket ticket : tickets) wait(ticket);
  for (auto& thread : threads) thread.join();
  for (const auto& work : works) EXPECT_EQ(work->starts, 1);
}

TEST_P(DriverExternalWork, ExternalWorkFailsItsQueueAndWhatIsBehindIsSkipped) {
  QueueId q = queue();
  auto work = std::make_shared<testing::ExternalProbe>(), behind = std::make_shared<testing::ExternalProbe>();
  Ticket failing = submit(q, External{work}, {.label = "sum"});
  Ticket skipped = submit(q, External{behind});
  ASSERT_TRUE(work->awaitStart());
  work->complete(unavailable("a rank is gone"), 0);
  EXPECT_EQ(device->wait(failing, kDeadlineMs).code(), StatusCode::kUnavailable);
  EXPECT_EQ(device->wait(skipped, kDeadlineMs).code(), StatusCode::kAborted);
  EXPECT_EQ(behind->starts, 0);
  EXPECT_EQ(behind->skips, 1);
  Status error = device->takeError(q, skipped);
  EXPECT_EQ(error.code(), StatusCode::kUnavailable);
  EXPECT_NE(error.message().find("'sum'"), std::string::npos);
  EXPECT_TRUE(device->deviceSpan(skipped).ok());
}

TEST_P(DriverExternalWork, FailuresCrossWaitsUnlessTheyOnlyOrder) {
  QueueId q = queue("failing"), dependent = queue("dependent"), ordered = queue("ordered");
  auto work = std::make_shared<testing::ExternalProbe>();
  submit(q, External{work}, {.label = "sum"});
  Ticket mark = submit(q, Marker{});
  submit(dependent, WaitFor{mark, nullptr});
  submit(ordered, WaitFor{mark, nullptr, true});
  Ticket skipped = submit(dependent, Fill{base, 1, 4}), run = submit(ordered, Fill{base, 1, 4});
  ASSERT_TRUE(work->awaitStart());
  EXPECT_TRUE(device->failure(mark).ok()) << "it is not done";
  work->complete(unavailable("a rank is gone"), 0);
  EXPECT_EQ(device->wait(skipped, kDeadlineMs).code(), StatusCode::kAborted);
  EXPECT_TRUE(device->wait(run, kDeadlineMs).ok());
  EXPECT_EQ(device->failure(mark).code(), StatusCode::kUnavailable);
  for (QueueId failed : {q, dependent}) {
    EXPECT_EQ(device->error(failed, run).code(), StatusCode::kUnavailable);
    Status taken = device->takeError(failed, run);
    EXPECT_EQ(taken.code(), StatusCode::kUnavailable);
    ASSERT_NE(taken.work(), nullptr);
    EXPECT_EQ(taken.work()->stream, "failing");
    EXPECT_EQ(taken.work()->operation, "external work");
    EXPECT_EQ(taken.work()->label, "sum");
    EXPECT_TRUE(device->error(failed, run).ok());
  }
  EXPECT_TRUE(device->error(ordered, run).ok());
  EXPECT_EQ(device->failure(mark).code(), StatusCode::kUnavailable) << "the ticket keeps it";
}

TEST_P(DriverExternalWork, AResetCancelsExternalWork) {
  QueueId q = queue();
  auto work = std::make_shared<testing::ExternalProbe>(), behind = std::make_shared<testing::ExternalProbe>();
  work->onCancel = [&](const Status& why) { work->complete(why, 0); };
  Ticket running = submit(q, External{work});
  Ticket queued = submit(q, External{behind});
  ASSERT_TRUE(work->awaitStart());
  ASSERT_TRUE(device->reset(kDeadlineMs).ok());
  EXPECT_EQ(work->cancels, 1);
  EXPECT_EQ(behind->skips, 1);
  EXPECT_EQ(device->wait(running, 0).code(), StatusCode::kCancelled);
  EXPECT_EQ(device->wait(queued, 0).code(), StatusCode::kCancelled);
  EXPECT_TRUE(device->takeError(q, queued).ok());
  wait(submit(q, Marker{}));
}

HPU_FOR_ALL_DRIVERS(DriverExternalWork);

}  // namespace
}  // namespace hpu::driver
