// SPDX-License-Identifier: Apache-2.0
// ShmRank: ranks of the shared-memory transport as threads of a test.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/transport/shm/ShmTransport.h"
#include "hpu/device.h"

namespace hpu::testing {

/// Small devices 0..count-1 of the node, open.
std::vector<Device> openDevices(int count);

/// All ranks of a communicator in this process. `change` may alter a rank's options first.
std::vector<StatusOr<std::shared_ptr<collectives::Transport>>> createRanks(
    int ranks, const std::vector<Device>& devices, const std::function<void(collectives::ShmOptions&)>& change = {});

/// What this process holds.
struct Holdings {
  int descriptors = 0, mappings = 0, threads = 0;
  int segments = 0;  ///< Mappings of communicators.
};
Holdings holdings();

}  // namespace hpu::testing
