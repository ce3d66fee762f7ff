// SPDX-License-Identifier: Apache-2.0
// HostAccess: whether host memory that a copy is about to touch is there and may be touched.
// The one thing to know: it is asked on the thread that copies, right before the copy, so that
// memory that is gone or read-only by then is an error of the stream and not the process's end.
#pragma once

#include <cstdint>

#include "hpu/status.h"

namespace hpu::driver {

enum class HostAccess : uint8_t { kRead, kWrite };

/// Errors: kNotFound. It cannot see what another thread of the program unmaps during the copy.
Status checkHostAccess(const void* data, int64_t bytes, HostAccess access);

}  // namespace hpu::driver
