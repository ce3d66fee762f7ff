// SPDX-License-Identifier: Apache-2.0
// How entry points read and change a tensor's properties.
// The one thing to know: once a node uses a tensor its properties are fixed (synObjectAlreadyInitialized), and a
// property that was never given cannot be read (synObjectNotInitialized).
#pragma once

#include "base/Format.h"
#include "bindings/synapse/api/EntryPoint.h"
#include "bindings/synapse/graph/Tables.h"

namespace hpu::synapse {

/// `apply(TensorProperties&) -> Result` under the tensor's lock.
template <typename Change>
Result changeTensor(synTensor handle, Change&& apply) {
  SYN_FIND(tensor, tensors(), handle);
  std::lock_guard lock(tensor->mutex);
  if (tensor->locked)
    return {synObjectAlreadyInitialized,
            base::strCat("tensor '", tensor->properties.name, "' is used by a node; its properties are fixed")};
  return apply(tensor->properties);
}

/// `get(const TensorProperties&) -> Result`; `property` must have been given, 0 asks for none.
template <typename Get>
Result readTensor(synTensor handle, const void* out, uint32_t property, Get&& get) {
  SYN_FIND(tensor, tensors(), handle);
  if (!out) return badArgument("the pointer to the result is null");
  std::lock_guard lock(tensor->mutex);
  const TensorProperties& properties = tensor->properties;
  if (property && !(properties.set & property))
    return {synObjectNotInitialized, base::strCat("tensor '", properties.name, "' was not given this property")};
  return get(properties);
}

/// What synTensorAssignToSection and synTensorCreate do; `object` is the handle's. The tensor's lock is held.
Result assignToSection(TensorObject& tensor, synSectionHandle handle, SectionObject& section, uint64_t offset);

/// Checks a geometry and puts it into the properties.
Result setGeometry(TensorProperties& tensor, const uint64_t* sizes, uint32_t dims, synGeometryType type);

/// Puts a value into the properties; `size` in bytes.
Result setHostValue(TensorProperties& tensor, void* pointer, uint64_t size, synDataType type, bool copy);

}  // namespace hpu::synapse
