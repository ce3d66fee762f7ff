// SPDX-License-Identifier: Apache-2.0
// GraphDescription: a SynapseAI graph as plain data, which the C API records and the lowering compiles.
// The one thing to know: sizes are in SynapseAI's order, index 0 varies fastest; enumerations hold the values
// of the public C headers, so that this file needs none of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hpu/target.h"

namespace hpu::synapse {

inline constexpr uint32_t kNoSection = 0xFFFFFFFF;
inline constexpr int32_t kNoTensor = -1;

/// synTensorType of tensors that hold data: DATA_TENSOR and DATA_TENSOR_DYNAMIC.
inline constexpr uint32_t kDataTensor = 0, kDynamicDataTensor = 3;

struct TensorDescription {
  uint64_t id = 0;                           ///< Unique in the process.
  std::string name;                          ///< Unique among a graph's persistent tensors.
  uint32_t type = 0;                         ///< synTensorType.
  uint32_t dataType = 0;                     ///< synDataType on the device; 0 until the user or shape inference says.
  std::vector<uint64_t> maxSizes, minSizes;  ///< Same rank; equal when the tensor is static.
  std::vector<uint8_t> permutation;          ///< Of the memory order, or empty.
  std::vector<uint64_t> strides;             ///< In bytes, or empty: dense (MemoryLayout.h).

  uint32_t section = kNoSection;  ///< Index into GraphDescription::sections.
  uint64_t sectionOffset = 0;     ///< Bytes.
  bool external = false;          ///< Signals while the graph runs.

  /// The value of a constant, or of a host-to-device tensor's defaults: dense, `hostType` elements; or a strided
  /// tensor's whole memory.
  std::shared_ptr<const std::vector<std::byte>> hostData;
  uint32_t hostType = 0;

  /// Quantisation: one entry a tensor, or one a channel (the slowest-varying of a weight).
  std::vector<double> scales, zeroPoints;
  std::vector<uint32_t> expBiases;
};

struct SectionDescription {
  uint32_t id = 0;  ///< synSectionId; as the recipe reports it.
  uint64_t group = 0;
  bool persistent = false, isConst = false, rmw = false;
};

struct NodeDescription {
  uint64_t id = 0;
  std::string guid;  ///< As given; lookup is case-insensitive.
  std::string name;
  std::vector<int32_t> inputs, outputs;                  ///< Indices into GraphDescription::tensors, or kNoTensor.
  std::vector<std::byte> params;                         ///< The user's parameter structure, bytes as given.
  std::vector<std::string> inputLayouts, outputLayouts;  ///< "" or missing: do not care.
  std::vector<uint64_t> after;                           ///< Ids of nodes that must run before it.
  uint32_t roundingMode = 0;                             ///< synRoundingMode.
  bool deterministic = false;
  /// synDataType that the user wants this node's type computed in (synNodeTypeSetPrecision); 0: its own.
  uint32_t precision = 0;
};

struct GraphDescription {
  std::string name;
  Target target = Target::kGaudi2;
  bool inference = false;
  bool eager = false;
  std::vector<TensorDescription> tensors;
  std::vector<SectionDescription> sections;
  std::vector<NodeDescription> nodes;  ///< In the order of creation, which need not be topological.
};

}  // namespace hpu::synapse
