// SPDX-License-Identifier: Apache-2.0
// Ranks that call the same, and how those that do not are told what differs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "collectives/executor/Calls.h"

namespace hpu::collectives {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

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
  EXPECT_TRUE(compareCalls(call(), other, 0, 1).ok());
}

TEST(Calls, WhatDiffersIsNamed) {
  CallRecord other = call();
  other.count = 99;
  other.root = 1;
  Status status = compareCalls(call(), other, 0, 3);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("rank 3 called reduce (sum) of 99 f32 to rank 1"));
  EXPECT_THAT(status.message(), HasSubstr("where rank 0 called reduce (sum) of 100 f32"));
  EXPECT_THAT(status.message(), HasSubstr("they differ in count, root"));
}

TEST(Calls, AMismatchThatIsHeardOfStaysOneAndNamesWhoFoundIt) {
  CallRecord other = call();
  other.count = 99;
  const Status first = heardFrom(0, compareCalls(call(), other, 0, 3));
  EXPECT_EQ(first.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(first.message(), StartsWith("rank 0 gave up: rank 3 called reduce"));
  // Passed on with the context of who passed it on.
  const Status second = heardFrom(2, first.withContext("reduce #7 (sum) of 100 f32 to rank 0"));
  EXPECT_EQ(second.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(second.message(), first.message());
  for (const auto& [status, code] : {std::pair(unavailable("gone"), StatusCode::kUnavailable),
                                     std::pair(invalidArgument("its input is nowhere"), StatusCode::kAborted)})
    EXPECT_EQ(heardFrom(1, status).code(), code) << status.toString();
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
      EXPECT_EQ(a.fingerprint == b.fingerprint, compareCalls(a, b, 0, 1).ok()) << callText(a) << ", " << callText(b);
}

TEST(Calls, ARankThatRunsSchedulesCannotMeetOneThatDoesNot) {
  CallRecord other = call();
  other.direct = 0;
  Status status = compareCalls(call(), other, 0, 2);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("HPU_COMM_DIRECT"));
}

}  // namespace
}  // namespace hpu::collectives
