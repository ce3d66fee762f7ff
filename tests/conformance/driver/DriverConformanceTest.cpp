// SPDX-License-Identifier: Apache-2.0
// What every driver must do, whatever executes its work; README.md lists the rules.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "DriverFixture.h"
#include "TinyProgram.h"

namespace hpu::driver {
namespace {

class DriverConformance : public DriverFixture {};

TEST_P(DriverConformance, SaysWhatItIs) {
  EXPECT_EQ(device->info().driver, GetParam());
  EXPECT_EQ(device->info().target, Target::kGaudi2);
  EXPECT_EQ(device->memory().bytes, device->info().hbmBytes);
  EXPECT_EQ(device->memory().bytes, 64 * kMiB);
  EXPECT_NE(base, 0u);
  EXPECT_EQ(base % 256, 0u);
}

TEST_P(DriverConformance, BytesGoInAcrossAndOut) {
  QueueId q = queue();
  std::vector<int32_t> data = ramp(50000), out(50000, -1);
  upload(q, base, data);
  submit(q, CopyOnDevice{base + kMiB, base, 200000});
  submit(q, Fill{base + kMiB, 0xff, 4});
  wait(download(q, out, base + kMiB));
  if (!computes()) return;
  EXPECT_EQ(out[0], -1);
  data[0] = -1;
  EXPECT_EQ(out, data);
}

TEST_P(DriverConformance, QueueKeepsItsOrder) {
  QueueId q = queue();
  std::vector<int32_t> values = ramp(3000);
  std::vector<Ticket> tickets;
  for (int32_t& value : values) tickets.push_back(submit(q, CopyToDevice{base, &value, 4}));
  int32_t out = -1;
  Ticket last = submit(q, CopyToHost{&out, base, 4});
  wait(last);
  for (size_t i = 0; i < tickets.size(); ++i) {
    ASSERT_TRUE(device->done(tickets[i]));
    if (i) {
      ASSERT_GT(tickets[i], tickets[i - 1]);
    }
    if (i) {
      ASSERT_GE(span(tickets[i]).startNs, span(tickets[i - 1]).startNs);
    }
  }
  if (computes()) {
    EXPECT_EQ(out, 2999);
  }
}

TEST_P(DriverConformance, WaitHoldsAQueueInBothClocks) {
  QueueId first = queue("first"), second = queue("second");
  std::vector<int32_t> data = ramp(1 << 20), out(1 << 20, -1);
  for (int round = 0; round < 5; ++round) {
    data[round] = -7;
    Ticket up = upload(first, base, data);
    submit(second, WaitFor{up, nullptr});
    Ticket down = download(second, out, base);
    wait(down);
    EXPECT_TRUE(device->done(up));
    EXPECT_GE(span(down).startNs + 1, span(up).endNs);
    if (computes()) {
      ASSERT_EQ(out, data);
    }
  }
}

TEST_P(DriverConformance, WaitForWorkOfAnotherDevice) {
  std::shared_ptr<DriverDevice> other = open(1);
  QueueId mine = queue("mine"), theirs = other->createQueue("theirs").value();
  std::vector<int32_t> data = ramp(1 << 20, 5), through(1 << 20, -1), out(1 << 20, -1);
  int64_t bytes = 4 << 20;
  ASSERT_TRUE(other->submit(theirs, CopyToDevice{other->memory().base, data.data(), bytes}, {}).ok());
  Ticket there = other->submit(theirs, CopyToHost{through.data(), other->memory().base, bytes}, {}).value();
  submit(mine, WaitFor{there, other});
  upload(mine, base, through);
  Ticket end = download(mine, out, base);
  wait(end);
  EXPECT_TRUE(other->done(there));
  EXPECT_GE(span(end).endNs, other->deviceSpan(there).value().endNs);
  if (computes()) {
    EXPECT_EQ(out, data);
  }
}

TEST_P(DriverConformance, LaunchRunsAProgramAndCountsItsCommands) {
  auto program = testing::copyProgram(10000, 4);
  ProgramId id = device->loadProgram(program).value();
  QueueId q = queue();
  std::vector<int32_t> data = ramp(10000), out(10000, -1);
  upload(q, base, data);
  Ticket launch = submit(q, Launch{id, {base, base + kMiB, base + 2 * kMiB}});
  wait(download(q, out, base + 2 * kMiB));
  if (computes()) {
    EXPECT_EQ(out, data);
  }
  auto time = span(launch);
  EXPECT_GT(time.endNs, time.startNs);
  DeviceCounters counters = device->counters();
  EXPECT_EQ(counters.launches, 1);
  EXPECT_EQ(counters.commands, 8);
  EXPECT_EQ(counters.h2dBytes, 40000);
  EXPECT_EQ(counters.d2hBytes, 40000);
  EXPECT_GT(counters.busyNs[static_cast<int>(Engine::kDma)], 0);
  EXPECT_EQ(counters.busyNs[static_cast<int>(Engine::kMme)], 0);
  EXPECT_GE(counters.deviceNs, time.endNs);
}

TEST_P(DriverConformance, SignalsOfALaunchComeBeforeItsEndAndAfterTheirOutput) {
  // Output 1 is written first.
  ProgramId id = device->loadProgram(testing::fanOutProgram(1 << 18, {1, 0})).value();
  QueueId q = queue("compute"), reader = queue("reader");
  std::vector<int32_t> data = ramp(1 << 18), out(1 << 18, -1);
  upload(q, base, data);
  Ticket launch = submit(q, Launch{id, {base, base + kMiB, base + 2 * kMiB}, {1, 0}});
  submit(reader, WaitFor{launch + 1, nullptr});
  Ticket read = download(reader, out, base + 2 * kMiB);
  wait(read);
  if (computes()) {
    EXPECT_EQ(out, data);
  }
  auto whole = span(launch), early = span(launch + 1), last = span(launch + 2);
  EXPECT_LT(early.endNs, last.endNs);
  EXPECT_EQ(last.endNs, whole.endNs);
  // Two equal copies.
  EXPECT_NEAR(static_cast<double>(early.endNs - whole.startNs), static_cast<double>(whole.endNs - whole.startNs) / 2,
              2.0);
  EXPECT_LE(span(read).startNs, early.endNs);
  EXPECT_EQ(device->submit(q, Launch{id, {base, base + kMiB, base + 2 * kMiB}, {2}}, {}).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_P(DriverConformance, ABatchTakesTheTimesOfItsItemsSubmittedOneByOne) {
  ProgramId id = device->loadProgram(testing::copyProgram(10000, 4)).value();
  std::vector<int32_t> data = ramp(10000), out(10000, -1);
  auto items = [&](QueueId side) {
    std::vector<BatchItem> list(6);
    list[0].work = CopyToDevice{base, data.data(), 40000};
    list[1].work = Launch{id, {base, base + kMiB, base + 2 * kMiB}, {0}};
    list[2].work = WaitFor{};
    list[2].waitItem = 1;
    list[2].waitSignal = 0;
    list[3].work = CopyToHost{out.data(), base + 2 * kMiB, 40000};
    list[2].queue = list[3].queue = side;
    list[4].work = WaitFor{};
    list[4].waitItem = 3;
    list[5].work = Marker{};
    list[3].kept = list[5].kept = true;
    return list;
  };
  QueueId q = queue("main"), side = queue("side");
  auto watched = std::make_shared<int>(1);
  std::weak_ptr<int> watch = watched;
  BatchOptions options;
  options.queue = q;
  options.earliestStartNs = 1000000;
  options.keepAlive = std::move(watched);
  auto tickets = device->submitBatch(items(side), std::move(options));
  ASSERT_TRUE(tickets.ok()) << tickets.status().message();
  wait(tickets->back());
  EXPECT_TRUE(watch.expired());
  if (computes()) {
    EXPECT_EQ(out, data);
  }
  // The same one by one, on engines that are idle again.
  SubmitOptions later{.earliestStartNs = 2000000};
  submit(q, CopyToDevice{base, data.data(), 40000}, later);
  Ticket launch = submit(q, Launch{id, {base, base + kMiB, base + 2 * kMiB}, {0}}, later);
  submit(side, WaitFor{launch + 1, nullptr}, later);
  Ticket down = submit(side, CopyToHost{out.data(), base + 2 * kMiB, 40000}, later);
  submit(q, WaitFor{down, nullptr}, later);
  Ticket end = submit(q, Marker{}, later);
  EXPECT_EQ(span(tickets->back()).endNs - 1000000, span(end).endNs - 2000000);
  EXPECT_EQ(span((*tickets)[3]).startNs - 1000000, span(down).startNs - 2000000);
  std::vector<BatchItem> bad = items(side);
  bad[4].waitItem = 5;
  auto refused = device->submitBatch(bad, {});
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("item 4"), std::string::npos);
}

TEST_P(DriverConformance, LaunchesOfOneProgramTakeEqualTimeOnIdleEngines) {
  ProgramId id = device->loadProgram(testing::copyProgram(10000, 4)).value();
  QueueId q = queue();
  std::vector<int64_t> durations;
  for (int i = 0; i < 5; ++i) {
    auto time = span(submit(q, Launch{id, {base, base + kMiB, base + 2 * kMiB}}, {.earliestStartNs = i * 1000000}));
    EXPECT_EQ(time.startNs, i * 1000000);
    durations.push_back(time.endNs - time.startNs);
  }
  EXPECT_EQ(durations, std::vector<int64_t>(5, durations[0]));
}

TEST_P(DriverConformance, UnloadedProgramFinishesWhatWasLaunched) {
  ProgramId id = device->loadProgram(testing::fillProgram(1000, 1234)).value();
  QueueId q = queue();
  for (int i = 0; i < 20; ++i) submit(q, Launch{id, {base}});
  device->unloadProgram(id);
  EXPECT_EQ(device->submit(q, Launch{id, {base}}, {}).status().code(), StatusCode::kNotFound);
  std::vector<int32_t> out(1000);
  wait(download(q, out, base));
  if (computes()) {
    EXPECT_EQ(out, std::vector<int32_t>(1000, 1234));
  }
}

TEST_P(DriverConformance, ProgramOfAnotherTargetIsRefused) {
  auto program = testing::fillProgram(10, 1, Target::kGaudi1);
  EXPECT_EQ(device->loadProgram(program).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(device->loadProgram(nullptr).status().code(), StatusCode::kInvalidArgument);
}

TEST_P(DriverConformance, AddressesOutsideOfTheMemoryAreRefused) {
  QueueId q = queue();
  char host[16] = {};
  auto code = [&](Work work) { return device->submit(q, std::move(work), {}).status().code(); };
  EXPECT_EQ(code(CopyToDevice{base - 1, host, 16}), StatusCode::kOutOfRange);
  EXPECT_EQ(code(CopyToHost{host, base + 64 * kMiB - 15, 16}), StatusCode::kOutOfRange);
  EXPECT_EQ(code(CopyOnDevice{base, ~uint64_t{0}, 16}), StatusCode::kOutOfRange);
  EXPECT_EQ(code(Fill{base, 0, -1}), StatusCode::kOutOfRange);
  EXPECT_EQ(code(Fill{base, 0, INT64_MAX}), StatusCode::kOutOfRange);
  EXPECT_EQ(code(CopyToDevice{base, nullptr, 16}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Launch{12345, {}}), StatusCode::kNotFound);
  ProgramId id = device->loadProgram(testing::fillProgram(1000, 1)).value();
  EXPECT_EQ(code(Launch{id, {}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Launch{id, {base + 64 * kMiB - 256}}), StatusCode::kOutOfRange);
  EXPECT_EQ(code(WaitFor{999999, nullptr}), StatusCode::kNotFound);
  EXPECT_EQ(device->submit(q + 77, Marker{}, {}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(device->submit(q, Marker{}, {.earliestStartNs = -1}).status().code(), StatusCode::kOutOfRange);
  // The queue is as before.
  wait(submit(q, Marker{}));
}

TEST_P(DriverConformance, SubmitReturnsWhileTheQueueIsBlocked) {
  std::shared_ptr<DriverDevice> other = open(1);
  QueueId gateQueue = other->createQueue("gate").value();
  // A queue of ours waits for work that is long; thousands of submissions go in meanwhile.
  std::vector<int32_t> data = ramp(4 << 20);
  Ticket gate = 0;
  for (int i = 0; i < 8; ++i)
    gate = other->submit(gateQueue, CopyToDevice{other->memory().base, data.data(), 16 * kMiB}, {}).value();
  QueueId q = queue();
  submit(q, WaitFor{gate, other});
  Ticket last = 0;
  for (int i = 0; i < 5000; ++i) last = submit(q, Fill{base, 1, 16});
  wait(last);
  EXPECT_TRUE(other->done(gate));
}

TEST_P(DriverConformance, OwnersAreReleasedWhenTheWorkIsDone) {
  QueueId q = queue();
  auto owner = std::make_shared<int>(1);
  std::weak_ptr<int> watch = owner;
  Ticket ticket = submit(q, Fill{base, 1, kMiB}, {.keepAlive = std::move(owner)});
  wait(ticket);
  EXPECT_TRUE(watch.expired());
  ProgramId id = device->loadProgram(testing::fillProgram(1000, 1)).value();
  owner = std::make_shared<int>(2);
  watch = owner;
  wait(submit(q, Launch{id, {base}}, {.keepAlive = std::move(owner)}));
  EXPECT_TRUE(watch.expired());
}

TEST_P(DriverConformance, CallbackComesWhenTheWorkIsDone) {
  QueueId q = queue();
  std::atomic<int> calls{0};
  Ticket ticket = submit(q, Fill{base, 1, kMiB});
  device->whenDone(ticket, [&] { ++calls; });
  wait(submit(q, Marker{}));
  EXPECT_EQ(calls, 1);
  device->whenDone(ticket, [&] { ++calls; });
  EXPECT_EQ(calls, 2);
}

TEST_P(DriverConformance, DeviceTimeStartsAtTheEarliestStart) {
  QueueId q = queue();
  auto marker = span(submit(q, Marker{}, {.earliestStartNs = 5000}));
  EXPECT_EQ(marker.startNs, 5000);
  EXPECT_EQ(marker.endNs, 5000);
  auto fill = span(submit(q, Fill{base, 1, kMiB}));
  EXPECT_GE(fill.startNs, 5000);
  EXPECT_GT(fill.endNs, fill.startNs);
}

TEST_P(DriverConformance, ObservedDeviceTimeIsNeverRevised) {
  QueueId a = queue("a"), b = queue("b");
  Ticket first = submit(a, Fill{base, 1, kMiB});
  auto before = span(first);
  auto urgent = span(submit(b, Fill{base + kMiB, 1, kMiB}, {.priority = 100}));
  auto after = span(first);
  EXPECT_EQ(before.startNs, after.startNs);
  EXPECT_EQ(before.endNs, after.endNs);
  EXPECT_GE(urgent.startNs + 1, before.endNs);
}

TEST_P(DriverConformance, PriorityDecidesAmongWhatIsNotObserved) {
  QueueId low = queue("low"), high = queue("high");
  Ticket first = submit(low, Fill{base, 1, kMiB}, {.priority = 0});
  Ticket urgent = submit(high, Fill{base + kMiB, 1, kMiB}, {.priority = 1});
  wait(first);
  wait(urgent);
  EXPECT_EQ(span(urgent).startNs, 0);
  EXPECT_GE(span(first).startNs + 1, span(urgent).endNs);
}

TEST_P(DriverConformance, EqualRunsGiveEqualDeviceTimes) {
  auto run = [&] {
    device.reset();  // A device has one opening at a time.
    device = open(2);
    ProgramId id = device->loadProgram(testing::copyProgram(10000, 4)).value();
    QueueId queues[] = {queue("a"), queue("b"), queue("c")};
    std::vector<int32_t> host(1 << 18);
    std::vector<Ticket> tickets;
    for (int i = 0; i < 30; ++i) {
      QueueId q = queues[i % 3];
      // Each queue has its own memory: only the times depend on each other.
      DeviceAddress address = device->memory().base + static_cast<uint64_t>(i % 3) * 8 * kMiB;
      if (i % 7 == 3) submit(q, WaitFor{tickets[tickets.size() - 2], nullptr});
      Work work;
      switch (i % 4) {
        case 0:
          work = CopyToDevice{address, host.data(), 1 << (10 + i % 8)};
          break;
        case 1:
          work = Launch{id, {address, address + kMiB, address + 2 * kMiB}};
          break;
        case 2:
          work = Fill{address, 0, 1 << (8 + i % 10)};
          break;
        default:
          work = CopyOnDevice{address, address + 4 * kMiB, 100000};
      }
      tickets.push_back(submit(q, std::move(work), {.priority = i % 2}));
    }
    std::vector<int64_t> times;
    for (Ticket ticket : tickets) {
      wait(ticket);
    }
    for (Ticket ticket : tickets) {
      times.push_back(span(ticket).startNs);
      times.push_back(span(ticket).endNs);
    }
    return times;
  };
  std::vector<int64_t> expected = run();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(run(), expected);
}

TEST_P(DriverConformance, TimeOfUnfinishedOrForgottenWorkIsAnError) {
  QueueId q = queue();
  EXPECT_FALSE(device->deviceSpan(1).ok());
  Ticket ticket = submit(q, Marker{});
  wait(ticket);
  EXPECT_TRUE(device->deviceSpan(ticket).ok());
  device->forget(ticket);
  EXPECT_EQ(device->deviceSpan(ticket).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(device->done(ticket));
}

TEST_P(DriverConformance, DestroyedQueueFinishesItsWorkAndTakesNoMore) {
  QueueId q = queue();
  std::vector<int32_t> data = ramp(1 << 20), out(1 << 20, -1);
  upload(q, base, data);
  Ticket last = download(q, out, base);
  device->destroyQueue(q);
  EXPECT_EQ(device->submit(q, Marker{}, {}).status().code(), StatusCode::kNotFound);
  wait(last);
  if (computes()) {
    EXPECT_EQ(out, data);
  }
  EXPECT_TRUE(device->deviceSpan(last).ok());
}

TEST_P(DriverConformance, ClosingFinishesTheWork) {
  std::vector<int32_t> data = ramp(1 << 20), out(1 << 20, -1);
  QueueId q = queue();
  upload(q, base, data);
  download(q, out, base);
  device.reset();
  if (computes()) {
    EXPECT_EQ(out, data);
  }
}

TEST_P(DriverConformance, DiscardedMemoryCanBeUsedAgain) {
  QueueId q = queue();
  std::vector<int32_t> data = ramp(1 << 20), out(1 << 20, -1);
  wait(upload(q, base, data));
  EXPECT_TRUE(device->discard(base, 4 << 20).ok());
  upload(q, base, data);
  wait(download(q, out, base));
  if (computes()) {
    EXPECT_EQ(out, data);
  }
}

TEST_P(DriverConformance, ClearedMemoryIsZeroAndItsNeighboursAreNot) {
  QueueId q = queue();
  std::vector<int32_t> data = ramp(1 << 20), out(1 << 20, -1);
  for (const auto& [first, count] : {std::pair(1, 1), std::pair(1001, 3000), std::pair(5, 900000)}) {
    wait(upload(q, base, data));
    EXPECT_TRUE(device->clear(base + static_cast<uint64_t>(first) * 4, count * 4).ok());
    wait(download(q, out, base));
    std::vector<int32_t> expected = data;
    std::fill_n(expected.begin() + first, count, 0);
    if (computes()) {
      EXPECT_EQ(out, expected) << first;
    }
  }
}

TEST_P(DriverConformance, NoErrorsToTakeAfterGoodWork) {
  QueueId q = queue();
  Ticket last = submit(q, Fill{base, 1, 16});
  wait(last);
  EXPECT_TRUE(device->takeError(q, last).ok());
  EXPECT_EQ(device->wait(last + 1000, 0).code(), StatusCode::kInvalidArgument);
}

TEST_P(DriverConformance, ManyThreadsMaySubmitAndAsk) {
  std::vector<std::thread> threads;
  std::atomic<int64_t> bytes{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      QueueId q = queue("thread");
      DeviceAddress mine = base + static_cast<uint64_t>(t) * kMiB;
      std::vector<int32_t> data = ramp(1000, t), out(1000);
      for (int i = 0; i < 100; ++i) {
        upload(q, mine, data);
        Ticket down = download(q, out, mine);
        bytes += 4000;
        wait(down);
        ASSERT_TRUE(device->deviceSpan(down).ok());
        if (computes()) {
          ASSERT_EQ(out, data);
        }
        device->forget(down);
        if (i % 10 == 0) device->counters();
      }
      device->destroyQueue(q);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(device->counters().h2dBytes, bytes);
}

HPU_FOR_ALL_DRIVERS(DriverConformance);

}  // namespace
}  // namespace hpu::driver
