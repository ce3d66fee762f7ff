// SPDX-License-Identifier: Apache-2.0
// For who builds on devices what waits (collectives, storage): no wait where it may be for itself.
// The one thing to know: inside of functions, hooks and external work that the runtime calls, waits for work are errors
// at once; a call of another library that waits asks here first.
//
//   HPU_RETURN_IF_ERROR(hpu::refuseWaitInCallback("Channel::drain"));
#pragma once

#include <string_view>

#include "hpu/status.h"

namespace hpu {

/// Errors: kFailedPrecondition when the calling thread is inside of something that the runtime calls, naming `call`,
/// where it was called, and what to do instead.
HPU_API Status refuseWaitInCallback(std::string_view call);

}  // namespace hpu
