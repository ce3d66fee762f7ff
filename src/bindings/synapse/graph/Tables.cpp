// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/graph/Tables.h"

namespace hpu::synapse {

// Never destroyed: entry points may run while the process ends.
Handles<GraphObject, synGraphHandle>& graphs() {
  static auto* table = new Handles<GraphObject, synGraphHandle>(HandleKind::kGraph);
  return *table;
}
Handles<TensorObject, synTensor>& tensors() {
  static auto* table = new Handles<TensorObject, synTensor>(HandleKind::kTensor);
  return *table;
}
Handles<SectionObject, synSectionHandle>& sections() {
  static auto* table = new Handles<SectionObject, synSectionHandle>(HandleKind::kSection);
  return *table;
}

}  // namespace hpu::synapse
