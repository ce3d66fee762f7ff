// SPDX-License-Identifier: Apache-2.0
// Ranks that call the same, and how those that do not are told what differs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

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

TEST(Calls, FingerprintsAreAlikeWhereCallsFitTogether) {
  std::vector<CallRecord> records;
  const auto add = [&](auto&& change) {
    CallRecord record = call();
    change(record);
    record.fingerprint = fingerprintOf(record);
    records.push_back(record);
  };
  for (uint8_t collective = 0; collective <= static_cast<uint8_t>(Collective::kPointToPoint); ++collective)
    for (uint8_t value = 0; value < 3; ++value) {
      const auto with = [&](auto&& change) {
        add([&](CallRecord& record) {
          record.collective = collective;
          change(record);
        });
      };
      with([&](CallRecord& record) { record.count = 100 + value; });
      with([&](CallRecord& record) { record.type = value; });
      with([&](CallRecord& record) { record.op = value; });
      with([&](CallRecord& record) { record.root = value; });
      with([&](CallRecord& record) { record.destination = value; });
      with([&](CallRecord& record) { record.tableHash = value; });
      with([&](CallRecord& record) { record.direct = value & 1; });
      with([&](CallRecord& record) { record.input = value; });
    }
  for (const CallRecord& a : records)
    for (const CallRecord& b : records)
      EXPECT_EQ(a.fingerprint == b.fingerprint, compareCalls(a, b, 1).ok()) << callText(a) << ", " << callText(b);
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
