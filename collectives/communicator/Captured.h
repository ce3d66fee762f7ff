// SPDX-License-Identifier: Apache-2.0
// Captured: calls on streams that are captured: each replay makes them again.
// The one thing to know: a replay makes the same call as the program would, with the same checks, so that ranks that
// replay and ranks that do not go together.
#pragma once

#include <vector>

#include "collectives/communicator/Call.h"
#include "hpu/status.h"
#include "hpu/stream.h"

namespace hpu::collectives {

/// Records calls whose streams are all captured, as enqueueCalls would enqueue them. On an error their captures fail.
Status captureCalls(std::vector<Call> calls);
/// A call on `stream` was wrong: without it a replay would be another program, so the capture fails, if there is one.
void failCapture(const Stream& stream, const Status& why);
/// Errors: kFailedPrecondition: of one communicator some calls are in a capture, and others are not, or in another one.
Status checkCaptures(const std::vector<Call>& calls);

}  // namespace hpu::collectives
