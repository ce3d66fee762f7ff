// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/common/QueueExecutor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace hpu::driver {
namespace {

using ::testing::HasSubstr;

/// An executor whose work calls a function chosen by the label.
class Bench {
 public:
  explicit Bench(int workers = 2)
      : executor(std::make_unique<QueueExecutor>(
            "test device", workers, [this](const Work& work, const std::string& label, QueueExecutor::Signal signal) {
              return run(work, label, signal);
            })) {}

  Status run(const Work&, const std::string& label, QueueExecutor::Signal signal) {
    if (label.starts_with("signal 1")) signal(1);
    if (label == "fail") return internalError("as asked");
    if (label == "throw") throw std::bad_alloc();
    if (label.ends_with("block")) {
      std::unique_lock lock(mutex);
      gate.wait(lock, [&] { return open; });
    }
    std::lock_guard lock(mutex);
    order.push_back(label);
    return okStatus();
  }
  void openGate() {
    {
      std::lock_guard lock(mutex);
      open = true;
    }
    gate.notify_all();
  }
  Ticket submit(QueueId queue, std::string label, std::shared_ptr<const void> owner = nullptr) {
    return submitWork(queue, Fill{}, std::move(label), std::move(owner));
  }
  Ticket submitWork(QueueId queue, Work work, std::string label = {}, std::shared_ptr<const void> owner = nullptr) {
    auto ticket = executor->submit(queue, std::move(work), std::move(owner), std::move(label),
                                   [](Ticket, const ExternalWork*) {});
    EXPECT_TRUE(ticket.ok()) << ticket.status().message();
    return ticket.ok() ? *ticket : 0;
  }
  QueueId queue(const std::string& name) { return executor->createQueue(name).value(); }
  std::vector<std::string> seen() {
    std::lock_guard lock(mutex);
    return order;
  }

  std::mutex mutex;
  std::condition_variable gate;
  bool open = false;
  std::vector<std::string> order;
  std::unique_ptr<QueueExecutor> executor;
};

TEST(QueueExecutor, RunsAQueueInOrder) {
  Bench bench(3);
  QueueId q = bench.queue("q");
  std::vector<std::string> expected;
  Ticket last = 0;
  for (int i = 0; i < 200; ++i) {
    expected.push_back(std::to_string(i));
    last = bench.submit(q, expected.back());
  }
  ASSERT_TRUE(bench.executor->wait(last, 10000).ok());
  EXPECT_EQ(bench.seen(), expected);
}

TEST(QueueExecutor, SubmitDoesNotBlockBehindWorkAndQueuesHoldThousands) {
  Bench bench(1);
  QueueId q = bench.queue("q");
  Ticket first = bench.submit(q, "block"), last = 0;
  for (int i = 0; i < 10000; ++i) last = bench.submit(q, "x");
  EXPECT_FALSE(bench.executor->done(first));
  EXPECT_FALSE(bench.executor->done(last));
  bench.openGate();
  ASSERT_TRUE(bench.executor->wait(last, 10000).ok());
  EXPECT_TRUE(bench.executor->done(first));
  EXPECT_EQ(bench.seen().size(), 10001u);
}

TEST(QueueExecutor, WaitingQueuesHoldNoThread) {
  Bench bench(1);
  QueueId source = bench.queue("source");
  Ticket gate = bench.submit(source, "block");
  // More waiting queues than worker threads, and the one worker is busy.
  std::vector<Ticket> ends;
  for (int i = 0; i < 20; ++i) {
    QueueId q = bench.queue("waiter");
    bench.submitWork(q, WaitFor{gate, nullptr});
    ends.push_back(bench.submit(q, "after"));
  }
  bench.openGate();
  for (Ticket ticket : ends) ASSERT_TRUE(bench.executor->wait(ticket, 10000).ok());
  std::vector<std::string> seen = bench.seen();
  ASSERT_EQ(seen.size(), 21u);
  EXPECT_EQ(seen.front(), "block");
}

TEST(QueueExecutor, WorkDoneRisesWithEachLookAtWorkThatRuns) {
  Bench bench(1);
  EXPECT_EQ(bench.executor->workDone(), bench.executor->workDone());
  Ticket ticket = bench.submit(bench.queue("q"), "block");
  uint64_t seen = bench.executor->workDone();
  for (int i = 0; i < 10000 && bench.executor->workDone() == seen; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  seen = bench.executor->workDone();
  EXPECT_GT(bench.executor->workDone(), seen);
  bench.openGate();
  ASSERT_TRUE(bench.executor->wait(ticket, 10000).ok());
  EXPECT_EQ(bench.executor->workDone(), bench.executor->workDone());
}

TEST(QueueExecutor, QueuesRunConcurrently) {
  Bench bench(2);
  QueueId a = bench.queue("a"), b = bench.queue("b");
  bench.submit(a, "block");
  Ticket other = bench.submit(b, "free");
  EXPECT_TRUE(bench.executor->wait(other, 10000).ok());
  EXPECT_EQ(bench.seen(), std::vector<std::string>{"free"});
  bench.openGate();
}

/// Launches of one program do one after the other anyway: those that are not first must not hold workers.
TEST(QueueExecutor, LaunchesOfOneProgramHoldOneWorker) {
  Bench bench(2);
  Launch launch;
  launch.program = 7;
  std::vector<Ticket> launches;
  for (int i = 0; i < 4; ++i) launches.push_back(bench.submitWork(bench.queue(""), launch, i == 0 ? "block" : "next"));
  Ticket free = bench.submit(bench.queue("free"), "free");
  launch.program = 8;
  Ticket other = bench.submitWork(bench.queue("other"), launch, "other");
  // Not wait(), which would do the work on this thread.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (Ticket ticket : {free, other})
    while (!bench.executor->done(ticket) && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_TRUE(bench.executor->done(free));
  EXPECT_TRUE(bench.executor->done(other));
  for (Ticket ticket : launches) EXPECT_FALSE(bench.executor->done(ticket));
  EXPECT_EQ(bench.executor->wait(launches[3], 20).code(), StatusCode::kDeadlineExceeded);
  bench.openGate();
  for (Ticket ticket : launches) EXPECT_TRUE(bench.executor->wait(ticket, 10000).ok());
  EXPECT_EQ(bench.executor->load().work, 0);
}

TEST(QueueExecutor, AResetFreesQueuesThatWaitForAProgram) {
  Bench bench(2);
  Launch launch;
  launch.program = 7;
  QueueId a = bench.queue("a"), b = bench.queue("b");
  Ticket first = bench.submitWork(a, launch, "block"), second = bench.submitWork(b, launch, "next");
  while (bench.executor->load().work > 0 && !bench.executor->done(second)) {
    if (bench.executor->reset(20, [](const std::vector<Ticket>&) {}).ok()) break;
  }
  EXPECT_TRUE(bench.executor->done(second));
  Ticket again = bench.submitWork(b, launch, "again");
  bench.openGate();
  EXPECT_TRUE(bench.executor->wait(again, 10000).ok());
  EXPECT_TRUE(bench.executor->done(first));
}

/// Tickets are found by their number in pieces: many at a time, done in any order.
TEST(QueueExecutor, ALongBacklogIsWorkedOffInOrder) {
  Bench bench(2);
  QueueId q = bench.queue("q"), other = bench.queue("other");
  bench.submit(q, "block");
  constexpr int kCount = 5000;
  std::vector<Ticket> tickets;
  for (int i = 0; i < kCount; ++i) {
    tickets.push_back(bench.submit(q, std::to_string(i)));
    if (i % 100 != 0) continue;
    EXPECT_TRUE(bench.executor->wait(bench.submit(other, "other"), 10000).ok());
  }
  EXPECT_EQ(bench.executor->load().work, kCount + 1);
  bench.openGate();
  EXPECT_TRUE(bench.executor->wait(tickets.back(), 60000).ok());
  std::vector<std::string> seen = bench.seen();
  std::erase(seen, "other");
  ASSERT_EQ(seen.size(), kCount + 1u);
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(seen[i + 1], std::to_string(i));
  EXPECT_EQ(bench.executor->load().work, 0);
}

TEST(QueueExecutor, FailureIsTakenOnceAndWorkBehindItIsNotRun) {
  Bench bench;
  QueueId q = bench.queue("compute");
  Ticket before = bench.submit(q, "a");
  Ticket failed = bench.submit(q, "fail"), again = bench.submit(q, "throw"), after = bench.submit(q, "b");
  EXPECT_EQ(bench.executor->wait(after, 10000).code(), StatusCode::kAborted);
  Status status = bench.executor->wait(failed, 10000);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("fill 'fail' on queue 'compute' of test device: as asked"));
  EXPECT_EQ(bench.executor->wait(again, 0).code(), StatusCode::kAborted);
  EXPECT_TRUE(bench.executor->takeError(q, before).ok());
  EXPECT_EQ(bench.executor->takeError(q, after).code(), StatusCode::kInternal);
  EXPECT_TRUE(bench.executor->takeError(q, after).ok());
  bench.executor->forget(failed);
  EXPECT_TRUE(bench.executor->wait(failed, 0).ok());
}

TEST(QueueExecutor, DeadlineNamesTheQueueAndLeavesItIntact) {
  Bench bench(1);
  QueueId q = bench.queue("slow");
  Ticket ticket = bench.submit(q, "block");
  Status status = bench.executor->wait(ticket, 20);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("queue 'slow' of test device"));
  bench.openGate();
  EXPECT_TRUE(bench.executor->wait(ticket, 10000).ok());
}

/// An executor whose one worker is kept busy with another queue, so that only threads that wait do the work of `queue`:
/// what is labelled `slow` takes `slowMs`.
class WithoutWorker {
 public:
  WithoutWorker(std::string slow, int slowMs)
      : executor_("test device", 1,
                  [this, slow = std::move(slow), slowMs](const Work&, const std::string& label, auto) {
                    if (label == "busy")
                      while (!open_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                    if (label == slow) std::this_thread::sleep_for(std::chrono::milliseconds(slowMs));
                    std::lock_guard lock(mutex_);
                    threads_.push_back(std::this_thread::get_id());
                    return okStatus();
                  }) {
    const QueueId other = executor_.createQueue("busy").value();
    queue_ = executor_.createQueue("q").value();
    busy_ = submit(other, Fill{}, "busy");
    while (executor_.load().work != 1) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // Until the worker has taken it.
  }
  ~WithoutWorker() { letWorkerGo(); }

  Ticket submit(Work work, const char* label) { return submit(queue_, std::move(work), label); }
  Status wait(Ticket ticket, int64_t deadlineMs) { return executor_.wait(ticket, deadlineMs); }
  void letWorkerGo() { open_ = true; }
  /// The worker has done what kept it busy.
  Status finish() { return executor_.wait(busy_, 600000); }
  /// Who has worked, in order; while nobody does.
  const std::vector<std::thread::id>& threads() const { return threads_; }

 private:
  Ticket submit(QueueId to, Work work, const char* label) {
    return executor_.submit(to, std::move(work), nullptr, label, [](Ticket, const ExternalWork*) {}).value();
  }
  std::mutex mutex_;
  std::vector<std::thread::id> threads_;
  std::atomic<bool> open_ = false;
  QueueExecutor executor_;  // Ends before what its work uses.
  QueueId queue_ = 0;
  Ticket busy_ = 0;
};

// A thread that helps cannot stop when its deadline comes: it keeps off queues whose work takes long.
TEST(QueueExecutor, AWaitingThreadDoesNotHelpWithWorkThatTakesLong) {
  constexpr int64_t kAtMost = 600000;
  WithoutWorker executor("long", 250);
  ASSERT_TRUE(executor.wait(executor.submit(Fill{}, "short"), kAtMost).ok());
  ASSERT_TRUE(executor.wait(executor.submit(Fill{}, "long"), kAtMost).ok());
  EXPECT_EQ(executor.threads(), std::vector<std::thread::id>(2, std::this_thread::get_id())) << "it helps at first";
  Ticket last = executor.submit(Fill{}, "long");
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    executor.letWorkerGo();
  });
  EXPECT_TRUE(executor.wait(last, kAtMost).ok());
  opener.join();
  ASSERT_TRUE(executor.finish().ok());
  ASSERT_EQ(executor.threads().size(), 4u);
  EXPECT_NE(executor.threads().back(), std::this_thread::get_id());
}

// A wait in short pieces (Python's, between which it looks for signals) is no slower for that.
TEST(QueueExecutor, AThreadWithLittleTimeHelpsWithWorkThatIsKnownToBeShort) {
  constexpr int64_t kAtMost = 600000, kLittle = 1000;
  WithoutWorker executor("longer", 80);
  auto late = [](const Status& status) { return status.code() == StatusCode::kDeadlineExceeded; };
  // Fills, however many, say nothing of what a launch takes, and one launch not what all do.
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(executor.wait(executor.submit(Fill{}, "short"), kAtMost).ok());
  for (int i = 0; i < 8; ++i) {
    Ticket ticket = executor.submit(Launch{}, "short");
    if (i % 7 == 0) {
      EXPECT_TRUE(late(executor.wait(ticket, 20))) << i;
    }
    ASSERT_TRUE(executor.wait(ticket, kAtMost).ok());
  }
  EXPECT_TRUE(executor.wait(executor.submit(Launch{}, "short"), kLittle).ok());
  // More work than any before may take longer; as much again is known.
  Launch large;
  large.workPs = int64_t{1} << 40;
  Ticket unknown = executor.submit(large, "short");
  EXPECT_TRUE(late(executor.wait(unknown, kLittle)));
  ASSERT_TRUE(executor.wait(unknown, kAtMost).ok());
  EXPECT_TRUE(executor.wait(executor.submit(large, "short"), kLittle).ok());
  ASSERT_TRUE(executor.wait(executor.submit(Launch{}, "longer"), kLittle).ok());  // Nobody could know.
  Ticket ticket = executor.submit(Launch{}, "short");
  EXPECT_TRUE(late(executor.wait(ticket, kLittle))) << "it might take longer";
  EXPECT_TRUE(executor.wait(ticket, 10 * kLittle).ok()) << "there is time enough";
  for (int i = 0; i < 400; ++i) ticket = executor.submit(Fill{}, "short");
  ASSERT_TRUE(executor.wait(ticket, kAtMost).ok());
  EXPECT_TRUE(executor.wait(executor.submit(Launch{}, "short"), kLittle).ok()) << "that was long ago";
  EXPECT_EQ(executor.threads(), std::vector<std::thread::id>(executor.threads().size(), std::this_thread::get_id()));
  executor.letWorkerGo();
  ASSERT_TRUE(executor.finish().ok());
}

TEST(QueueExecutor, UnknownQueuesAndTicketsAreErrors) {
  Bench bench;
  QueueId q = bench.queue("q");
  auto submit = [&](QueueId queue, Work work) {
    return bench.executor->submit(queue, std::move(work), nullptr, "", [](Ticket, const ExternalWork*) {})
        .status()
        .code();
  };
  EXPECT_EQ(submit(q + 100, Marker{}), StatusCode::kNotFound);
  EXPECT_EQ(submit(q, WaitFor{77, nullptr}), StatusCode::kInvalidArgument);
  EXPECT_EQ(submit(q, WaitFor{0, nullptr}), StatusCode::kInvalidArgument);
  EXPECT_EQ(bench.executor->wait(77, 0).code(), StatusCode::kInvalidArgument);
  bench.executor->destroyQueue(q);
  EXPECT_EQ(submit(q, Marker{}), StatusCode::kNotFound);
}

TEST(QueueExecutor, DestroyedQueueStillDoesItsWork) {
  Bench bench(1);
  QueueId q = bench.queue("q");
  bench.submit(q, "block");
  Ticket last = bench.submit(q, "last");
  bench.executor->destroyQueue(q);
  bench.openGate();
  ASSERT_TRUE(bench.executor->wait(last, 10000).ok());
  EXPECT_EQ(bench.seen().back(), "last");
}

TEST(QueueExecutor, OwnersAreReleasedBeforeTheWorkCountsAsDone) {
  Bench bench;
  QueueId q = bench.queue("q");
  for (int i = 0; i < 200; ++i) {
    auto owner = std::make_shared<int>(i);
    std::weak_ptr<int> watch = owner;
    Ticket ticket = bench.submit(q, "x", std::move(owner));
    ASSERT_TRUE(bench.executor->wait(ticket, 10000).ok());
    ASSERT_TRUE(watch.expired());
  }
}

TEST(QueueExecutor, CallbackComesOnceNowOrLater) {
  Bench bench(2);
  QueueId q = bench.queue("q");
  Ticket ticket = bench.submit(q, "block");
  std::atomic<int> calls{0};
  bench.executor->whenDone(ticket, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    ++calls;
  });
  EXPECT_EQ(calls, 0);
  bench.openGate();
  // The callback follows the end of the work; work behind it in the same queue follows the
  // callback, although another worker would have time for it.
  ASSERT_TRUE(bench.executor->wait(ticket, 10000).ok());
  ASSERT_TRUE(bench.executor->wait(bench.submit(q, "next"), 10000).ok());
  EXPECT_EQ(calls, 1);
  bench.executor->whenDone(ticket, [&] { ++calls; });
  EXPECT_EQ(calls, 2);
}

TEST(QueueExecutor, SignalsOfALaunchAreDoneWhenItSaysSoOrWithIt) {
  Bench bench(2);
  QueueId q = bench.queue("q"), waiter = bench.queue("waiter");
  // Signal 1 comes before the launch blocks; signal 0 never by itself.
  Ticket launch = bench.submitWork(q, Launch{0, {}, {0, 1}}, "signal 1, then block");
  bench.submitWork(waiter, WaitFor{launch + 2, nullptr});
  Ticket behind = bench.submit(waiter, "behind signal 1");
  ASSERT_TRUE(bench.executor->wait(behind, 10000).ok());
  EXPECT_TRUE(bench.executor->done(launch + 2));
  EXPECT_FALSE(bench.executor->done(launch + 1));
  EXPECT_FALSE(bench.executor->done(launch));
  // The next ticket is not one of the signals.
  EXPECT_EQ(bench.submit(q, "next"), launch + 5);
  bench.openGate();
  ASSERT_TRUE(bench.executor->wait(launch + 1, 10000).ok());
  ASSERT_TRUE(bench.executor->wait(launch, 10000).ok());
}

TEST(QueueExecutor, SignalsOfAFailedLaunchFailWithIt) {
  Bench bench(1);
  QueueId q = bench.queue("q");
  Ticket launch = bench.submitWork(q, Launch{0, {}, {0}}, "fail");
  EXPECT_EQ(bench.executor->wait(launch + 1, 10000).code(), StatusCode::kInternal);
  EXPECT_EQ(bench.executor->takeError(q, launch).code(), StatusCode::kInternal);
  EXPECT_TRUE(bench.executor->takeError(q, launch + 1).ok());
}

TEST(QueueExecutor, ABatchIsOrderedByItsOwnWaitsAndKeepsOrderOnEachQueue) {
  Bench bench(3);
  QueueId a = bench.queue("a"), b = bench.queue("b");
  std::vector<QueueExecutor::Entry> entries(6);
  entries[0] = {a, Fill{}, nullptr, "block"};
  entries[1] = {a, Fill{}, nullptr, "a1"};
  entries[2] = {b, WaitFor{}, nullptr, "", 1};
  entries[3] = {b, Fill{}, nullptr, "b3"};
  entries[4] = {a, WaitFor{}, nullptr, "", 3};
  entries[5] = {a, Fill{}, nullptr, "a5"};
  std::vector<Ticket> seen;
  auto tickets =
      bench.executor->submitBatch(std::move(entries), a, [&](const std::vector<Ticket>& all) { seen = all; });
  ASSERT_TRUE(tickets.ok()) << tickets.status().message();
  EXPECT_EQ(*tickets, seen);
  EXPECT_FALSE(bench.executor->done(tickets->front()));
  bench.openGate();
  ASSERT_TRUE(bench.executor->wait(tickets->back(), 10000).ok());
  EXPECT_EQ(bench.seen(), (std::vector<std::string>{"block", "a1", "b3", "a5"}));
}

TEST(QueueExecutor, AFailureInABatchIsAnErrorOfTheQueueThatReportsIt) {
  Bench bench(2);
  QueueId a = bench.queue("a"), b = bench.queue("b");
  std::vector<QueueExecutor::Entry> entries(4);
  entries[0] = {b, Fill{}, nullptr, "fail"};
  entries[1] = {b, Fill{}, nullptr, "behind it"};
  entries[2] = {a, WaitFor{}, nullptr, "", 1};
  entries[3] = {a, Fill{}, nullptr, "after", BatchItem::kNone, BatchItem::kNone, true};
  Ticket last = bench.executor->submitBatch(std::move(entries), a, [](const std::vector<Ticket>&) {}).value().back();
  bench.executor->wait(last, 10000).ignore();
  EXPECT_TRUE(bench.executor->takeError(b, last).ok());
  Status status = bench.executor->takeError(a, last);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("on queue 'b'"));
  EXPECT_TRUE(bench.seen().empty());
}

TEST(QueueExecutor, ABadBatchSubmitsNothing) {
  Bench bench(1);
  QueueId q = bench.queue("q");
  std::vector<QueueExecutor::Entry> entries(2);
  entries[0] = {q, Fill{}, nullptr, "never"};
  entries[1] = {q, WaitFor{77, nullptr}, nullptr, ""};
  auto tickets = bench.executor->submitBatch(std::move(entries), q, [](const std::vector<Ticket>&) { FAIL(); });
  EXPECT_EQ(tickets.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(tickets.status().message(), HasSubstr("item 1"));
  EXPECT_EQ(bench.executor->lastTicket(), 0u);
}

TEST(QueueExecutor, ClosingWaitsForTheWork) {
  Bench bench(2);
  QueueId a = bench.queue("a"), b = bench.queue("b");
  Ticket last = 0;
  for (int i = 0; i < 100; ++i) last = bench.submit(a, "a");
  bench.submitWork(b, WaitFor{last, nullptr});
  bench.submit(b, "b");
  bench.executor.reset();
  EXPECT_EQ(bench.seen().size(), 101u);
  EXPECT_EQ(bench.seen().back(), "b");
}

/// Work that owns the executor itself, as a buffer owns its device: the last owner goes on a
/// worker.
TEST(QueueExecutor, MayBeDestroyedByItsOwnWorker) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> ran{0};
    std::atomic<bool> destroyed{false};
    {
      struct Owner {
        std::unique_ptr<QueueExecutor> executor;
        std::atomic<bool>* destroyed;
        ~Owner() {
          executor.reset();
          *destroyed = true;
        }
      };
      auto owner = std::make_shared<Owner>();
      owner->destroyed = &destroyed;
      owner->executor = std::make_unique<QueueExecutor>("self", 1 + round % 2,
                                                        [&ran](const Work&, const std::string&, QueueExecutor::Signal) {
                                                          std::this_thread::sleep_for(std::chrono::milliseconds(1));
                                                          ++ran;
                                                          return okStatus();
                                                        });
      QueueExecutor* executor = owner->executor.get();
      QueueId q = executor->createQueue("q").value(), r = executor->createQueue("r").value();
      for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(executor->submit(q, Fill{}, nullptr, "", [](Ticket, const ExternalWork*) {}).ok());
        ASSERT_TRUE(executor->submit(r, Fill{}, nullptr, "", [](Ticket, const ExternalWork*) {}).ok());
      }
      auto ticket = executor->submit(q, Fill{}, owner, "", [](Ticket, const ExternalWork*) {});
      ASSERT_TRUE(ticket.ok());
      // What is behind it on the queue owns nothing, and is done all the same.
      ASSERT_TRUE(executor->submit(q, Marker{}, nullptr, "", [](Ticket, const ExternalWork*) {}).ok());
      ASSERT_TRUE(executor->submit(q, WaitFor{*ticket, nullptr}, nullptr, "", [](Ticket, const ExternalWork*) {}).ok());
      for (int i = 0; i < 3; ++i)
        ASSERT_TRUE(executor->submit(r, Fill{}, nullptr, "", [](Ticket, const ExternalWork*) {}).ok());
    }
    for (int i = 0; i < 5000 && !destroyed; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_TRUE(destroyed);
    EXPECT_EQ(ran, 11);  // With the marker.
  }
}

}  // namespace
}  // namespace hpu::driver
