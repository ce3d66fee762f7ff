// SPDX-License-Identifier: Apache-2.0
// Replaces the program's operator new by one that fails when a test says so. For programs that are only such tests.
#pragma once

namespace hpu::testing {

/// The calling thread's allocation number `nth`, counted from 0 and from now, throws std::bad_alloc.
void failAllocation(int nth);
/// Whether that allocation came; none fails any more.
bool allocationFailed();

}  // namespace hpu::testing
