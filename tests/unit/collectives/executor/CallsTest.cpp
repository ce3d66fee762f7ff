// SPDX-License-Identifier: Apache-2.0
// Ranks that call the same, and how those that do not are told what differs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/executor/Calls.h"

namespace hpu::collectives {
namespace {

using testing::HasSubstr;

CallRecord call() {
  CallRecord record;
  record.sequence = 7;
  record.count = 100;
  record.collective = static_cast<uint8_t>(Collective::kReduce);
  record.type = static_cast<uint8_t>(ElementType::kF32);
  record.direct = 1;
  return record;
}

TEST(Calls, OperandsTimesAndScalesMayDiffer) {
  CallRecord other = call();
  other.input = 0x1000;
  other.output = 0x2000;
  other.arrivalPs = 5;
  other.scale = 2;
  EXPECT_TRUE(compareCalls(call(), other, 1).ok());
}

TEST(Calls, WhatDiffersIsNamed) {
  CallRecord other = call();
  other.count = 99;
  other.root = 1;
  Status status = compareCalls(call(), other, 3);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("rank 3 called reduce (sum) of 99 f32 to rank 1"));
  EXPECT_THAT(status.message(), HasSubstr("they differ in count, root"));
}

TEST(Calls, ARankThatRunsSchedulesCannotMeetOneThatDoesNot) {
  CallRecord other = call();
  other.direct = 0;
  Status status = compareCalls(call(), other, 2);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("HPU_COMM_DIRECT"));
}

}  // namespace
}  // namespace hpu::collectives
