// SPDX-License-Identifier: Apache-2.0
// The five kinds of quantisation data that a tensor may be given.
// The one thing to know: per-channel kinds are read in two steps: without an array the number of channels is
// written, with one (and a size that counts it) the entries are.
#pragma once

#include "bindings/synapse/api/Result.h"
#include "bindings/synapse/graph/Objects.h"

namespace hpu::synapse {

/// `size` is that of the property's structure.
Result setQuantization(TensorProperties& tensor, synQuantizationProperty property, const void* value, uint64_t size);
/// `size` is that of the structure, or with the array's bytes added.
Result getQuantization(const TensorProperties& tensor, synQuantizationProperty property, void* value, uint64_t size);

}  // namespace hpu::synapse
