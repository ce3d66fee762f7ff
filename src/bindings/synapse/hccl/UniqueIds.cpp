// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/hccl/UniqueIds.h"

#include <algorithm>
#include <cstring>

namespace hpu::synapse {

static_assert(sizeof(hcclUniqueId) == 1032 && offsetof(hcclUniqueId, length) == 1024);

hcclUniqueId toHcclId(const collectives::UniqueId& id) {
  hcclUniqueId out = {};
  std::memcpy(out.internal, id.bytes, sizeof(id.bytes));
  out.length = sizeof(id.bytes);
  return out;
}

HcclResult fromHcclId(const hcclUniqueId& id, collectives::UniqueId& out) {
  out = {};
  bool zero = std::all_of(id.internal, id.internal + sizeof(id.internal), [](uint8_t byte) { return byte == 0; });
  if (zero) return {};
  // Programs that send only `internal` leave the length at 0.
  if (id.length != sizeof(out.bytes) && id.length != 0)
    return {hcclInvalidArgument, "the id is not one that hcclGetUniqueId gave"};
  std::memcpy(out.bytes, id.internal, sizeof(out.bytes));
  return {};
}

}  // namespace hpu::synapse
