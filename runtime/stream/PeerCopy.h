// SPDX-License-Identifier: Apache-2.0
// PeerCopy: a copy from the memory of another device of this process (Stream::copyFromDevice), as external work of the
// destination's stream.
// The one thing to know: its device time is that of one message over the link between the two (arch/LinkTiming.h). The
// link is taken at the destination's end, which every message over it takes as well, so that all of them share it.
#pragma once

#include <cstdint>
#include <memory>

#include "hpu/external_work.h"
#include "runtime/memory/BufferState.h"

namespace hpu {

struct PeerRange {
  std::shared_ptr<Allocation> memory;
  uint64_t address = 0;
};

/// Both devices have the same driver and are not the same one; the ranges are in their memory. It keeps neither alive.
std::shared_ptr<ExternalWork> peerCopy(const PeerRange& dst, const PeerRange& src, int64_t bytes);

/// An owner for the work (StreamState::submit): keeps the source, and its device, until the copy is done.
std::shared_ptr<const void> holdSource(const std::shared_ptr<Allocation>& memory);

}  // namespace hpu
