// SPDX-License-Identifier: Apache-2.0
// What those hear of a shared event who look late, when many later records have been made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "Gate.h"
#include "SmallDevice.h"
#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

using testing::Gate;
using ::testing::HasSubstr;
using testing::openSmall;

constexpr int kLongMs = 120000;  // Far beyond what a loaded machine needs.

Event makeShared() {
  return Event::create({.shared = true}).value();
}

/// Records the event `times` times, each behind a failure of its own, which is taken.
void recordFailures(Stream& stream, const Event& event, int times, const Status& failure) {
  for (int i = 0; i < times; ++i) {
    ASSERT_TRUE(stream.callHost([failure] { return failure; }).ok());
    ASSERT_TRUE(stream.record(event).ok());
    ASSERT_EQ(stream.synchronize(kLongMs).code(), failure.code());
  }
}

TEST(SharedEvent, ALateWaiterHearsOfItsOwnRecordWhateverCameLater) {
  Device device = openSmall();
  Stream early = Stream::create(device).value(), later = Stream::create(device).value();
  Stream waiter = Stream::create(device).value();
  for (const Status& own : {okStatus(), dataLoss("its own failure")}) {
    SCOPED_TRACE(own.toString());
    Event event = makeShared();
    Event opened = Event::open(event.handle().value()).value();
    Gate recorded, turn;
    turn.hold(waiter);
    recorded.hold(early, own);
    ASSERT_TRUE(early.record(event).ok());
    ASSERT_TRUE(waiter.wait(opened).ok());  // It looks when it has its turn.
    recorded.release();
    ASSERT_EQ(early.synchronize(kLongMs).code(), own.code());
    // Of two kinds, and good ones between them; far more than have a place of their own.
    recordFailures(later, event, 20, unavailable("another failure"));
    ASSERT_TRUE(later.record(event).ok());
    recordFailures(later, event, 20, aborted("a third one"));
    for (int i = 0; i < 40; ++i) ASSERT_TRUE(later.record(event).ok());
    ASSERT_TRUE(later.synchronize(kLongMs).ok());
    EXPECT_TRUE(opened.synchronize(kLongMs).ok());
    turn.release();
    const Status heard = waiter.synchronize(kLongMs);
    EXPECT_EQ(heard.code(), own.code()) << heard.message();
    if (!own.ok()) EXPECT_THAT(heard.message(), HasSubstr("later records"));
  }
}

TEST(SharedEvent, SaysSoWhenItHasFailedTooOftenSinceToKnow) {
  Device device = openSmall(0, "null");
  Stream early = Stream::create(device).value(), later = Stream::create(device).value();
  Stream first = Stream::create(device).value(), second = Stream::create(device).value();
  Event event = makeShared();
  Event opened = Event::open(event.handle().value()).value();
  Gate recorded, turn, again, secondTurn;
  turn.hold(first);
  recorded.hold(early);
  ASSERT_TRUE(early.record(event).ok());
  ASSERT_TRUE(first.wait(opened).ok());
  recorded.release();
  ASSERT_TRUE(early.synchronize(kLongMs).ok());
  // Failures with different codes that follow each other are remembered one by one.
  for (int i = 0; i < 600; ++i) {
    recordFailures(later, event, 1, unavailable("one"));
    recordFailures(later, event, 1, aborted("another"));
  }
  secondTurn.hold(second);
  again.hold(early);
  ASSERT_TRUE(early.record(event).ok());
  ASSERT_TRUE(second.wait(opened).ok());
  again.release();
  ASSERT_TRUE(early.synchronize(kLongMs).ok());
  recordFailures(later, event, 30, unavailable("one"));
  turn.release();
  secondTurn.release();
  const Status lost = first.synchronize(kLongMs);
  EXPECT_EQ(lost.code(), StatusCode::kUnknown);
  EXPECT_THAT(lost.message(), HasSubstr("is not known any more"));
  EXPECT_TRUE(second.synchronize(kLongMs).ok());
}

}  // namespace
}  // namespace hpu
