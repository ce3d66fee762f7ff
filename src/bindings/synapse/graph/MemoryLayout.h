// SPDX-License-Identifier: Apache-2.0
// MemoryLayout: where the elements of a tensor lie in its memory, as strides say it.
// The one thing to know: strides are in bytes, one a dimension, the fastest first; a tensor without any is dense, and a
// permutation, which is dense too, goes before strides. What lies between the elements belongs to somebody else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bindings/synapse/graph/GraphDescription.h"

namespace hpu::synapse {

/// Whether its strides say where elements lie.
bool hasStrides(const TensorDescription& tensor);

/// The stride of dimension d; 0 where none is given.
uint64_t strideOf(const TensorDescription& tensor, size_t d);

/// What is wrong with the strides for elements of these sizes; "" for strides that may be read, or (`isWritten`) that
/// give each element bytes of its own.
std::string strideFault(const TensorDescription& tensor, const std::vector<uint64_t>& sizes, uint64_t elementBytes,
                        bool isWritten);

/// Bytes from the first element to the end of the last one. Saturates at UINT64_MAX.
uint64_t extentOf(const TensorDescription& tensor, const std::vector<uint64_t>& sizes);

/// The memory of a tensor that holds these elements, in the tensor's type: dense ones are spread by its strides, with
/// zeros between them; as many bytes as the memory has are it already.
std::vector<std::byte> memoryImage(const TensorDescription& tensor, const std::vector<uint64_t>& sizes,
                                   std::vector<std::byte> elements);

/// Bytes of `sizes` elements of a synDataType, dense; 4-bit types are rounded up. Saturates.
uint64_t bytesOf(const std::vector<uint64_t>& sizes, uint32_t dataType);

}  // namespace hpu::synapse
