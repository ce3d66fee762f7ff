// SPDX-License-Identifier: Apache-2.0
// Calls: what a rank says of a collective, in words, and how two ranks' words differ.
#pragma once

#include <string>

#include "collectives/executor/Executor.h"
#include "collectives/transport/Transport.h"

namespace hpu::collectives {

/// `direct`: as SharedWork has it, else as its schedule says.
CallRecord recordOf(const CollectiveOperation& operation, bool direct);
/// Makes `record`, of an operation with the same schedule, type, reduction, table and `direct`, that of this one.
void recordNext(const CollectiveOperation& operation, CallRecord& record);
/// Of what compareCalls compares: alike for calls that fit together, and for others only by an accident that nobody
/// will see.
uint64_t fingerprintOf(const CallRecord& record);
/// "all-reduce (max) of 4096 f32", "broadcast of 10 i8 from rank 2"; numbered: "broadcast #7 of
/// ...".
std::string callText(const CallRecord& record, bool numbered = false);
/// "all-reduce #7".
std::string callName(const CallRecord& record);
/// Ok when both ranks called the same. Errors: kInvalidArgument, "rank 3 called all-gather of 1024
/// bf16 as operation 7 where rank 0 called all-reduce (sum) of 4096 f32: they differ in ...": both by
/// their numbers, since other ranks pass the text on.
Status compareCalls(const CallRecord& mine, const CallRecord& theirs, int rank, int peer);

/// The failure here when `peer` gave up for `reason`: "rank 2 gave up: ...", or what it had heard
/// itself from the first that did. kUnavailable, kDeadlineExceeded and the kInvalidArgument of calls that differ stay,
/// all else is kAborted.
Status heardFrom(int peer, const Status& reason);

}  // namespace hpu::collectives
