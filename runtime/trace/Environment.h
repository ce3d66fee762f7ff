// SPDX-License-Identifier: Apache-2.0
// Recording without a change to the program: the settings HPU_TRACE, HPU_TRACE_LEVEL and
// HPU_TRACE_EVENTS. The one thing to know: the first device that opens starts it, the end of the
// process completes the file; a process that is killed leaves what it had written.
#pragma once

#include "hpu/status.h"

namespace hpu::trace {

/// Starts what HPU_TRACE asks for, once a process (a forked child is another one); nothing when it
/// is not set or the program records by itself. A file that is another process's, or of the one that
/// this was forked from, is left alone: "run.hputrace" becomes "run.PID.hputrace". Any thread.
/// Errors: kInvalidArgument, naming HPU_TRACE: a bad setting, or a file that cannot be written.
Status startFromEnvironment();

}  // namespace hpu::trace
