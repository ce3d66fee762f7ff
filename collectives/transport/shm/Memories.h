// SPDX-License-Identifier: Apache-2.0
// Memories: the device memories that this process maps for its ranks, each once.
#pragma once

#include <cstdint>
#include <memory>

#include "hpu/status.h"
#include "runtime/node/PeerMemory.h"

namespace hpu::collectives::shm {

/// The memory of a device of the node, also of this process; mapped anew when its owner has
/// changed. `token` is what its owner gave. Any thread may call. Errors: as PeerMemory::map.
StatusOr<std::shared_ptr<node::PeerMemory>> deviceMemory(int index, int64_t deadlineMs,
                                                         const node::MemoryToken& token = {});

}  // namespace hpu::collectives::shm
