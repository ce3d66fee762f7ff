// SPDX-License-Identifier: Apache-2.0
// Where a command is in a program: its queue, and its place there.
#pragma once

#include <cstdint>

namespace hpu::recipe {

struct CommandRef {
  uint32_t queue = 0, command = 0;
  bool operator==(const CommandRef&) const = default;
};

}  // namespace hpu::recipe
