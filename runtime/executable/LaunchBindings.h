// SPDX-License-Identifier: Apache-2.0
// The memory that one launch uses, as ranges of device addresses, and which outputs lie over
// inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "hpu/status.h"

namespace hpu {

struct BoundMemory {
  uint64_t address = 0;
  int64_t bytes = 0;                  ///< That are used.
  std::shared_ptr<const void> owner;  ///< Null: nobody's, because nothing is used.
};

struct LaunchBindings {
  std::vector<BoundMemory> inputs, outputs;
  BoundMemory workspace;  ///< bytes 0: not the caller's.
};

/// The outputs, in rising order, that share memory with an input: a program may write them before
/// it has read all inputs. Errors: kInvalidArgument (outputs share memory, or something lies in the
/// workspace).
StatusOr<std::vector<size_t>> outputsOverInputs(const LaunchBindings& bindings);

}  // namespace hpu
