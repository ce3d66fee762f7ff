// SPDX-License-Identifier: Apache-2.0
// The handle tables of graphs, tensors and sections.
// The one thing to know: a graph's end ends the handles of its tensors; sections keep theirs until
// synSectionDestroy.
#pragma once

#include "bindings/synapse/api/Handles.h"
#include "bindings/synapse/graph/Objects.h"

namespace hpu::synapse {

Handles<GraphObject, synGraphHandle>& graphs();
Handles<TensorObject, synTensor>& tensors();
Handles<SectionObject, synSectionHandle>& sections();

}  // namespace hpu::synapse
