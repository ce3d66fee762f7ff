// SPDX-License-Identifier: Apache-2.0
// Memory of small objects that one thread makes and another one frees, again and again (launches, tickets, times).
// The one thing to know: a general allocator gives such blocks back to the thread's heap that made them, under its lock
// and one by one; here a thread keeps what it frees and passes a handful at a time on to those that make.
#pragma once

#include <cstddef>

namespace hpu::base {

/// Larger ones come from operator new.
inline constexpr size_t kLargestPooledBlock = 512;

/// At least `bytes`, aligned for any type. Throws std::bad_alloc. Any thread.
void* takeBlock(size_t bytes);
/// `bytes`: as it was taken with. Any thread.
void giveBlock(void* block, size_t bytes) noexcept;

/// Off: every block is the general allocator's, as tests of what happens without memory need it. Any thread.
void setBlockPooling(bool isOn) noexcept;

}  // namespace hpu::base
