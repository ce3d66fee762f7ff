// SPDX-License-Identifier: Apache-2.0
// hcclUniqueId and collectives::UniqueId: the same bytes in structures of different sizes.
#pragma once

#include "bindings/synapse/hccl/HcclResult.h"
#include "habanalabs/hccl_types.h"
#include "hpu/collectives.h"

namespace hpu::synapse {

hcclUniqueId toHcclId(const collectives::UniqueId& id);
/// A zeroed id stays one: HCCL_COMM_ID may say where to meet. Errors: hcclInvalidArgument (not from
/// hcclGetUniqueId).
HcclResult fromHcclId(const hcclUniqueId& id, collectives::UniqueId& out);

}  // namespace hpu::synapse
