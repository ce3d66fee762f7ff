// SPDX-License-Identifier: Apache-2.0
// What the handles of graphs, tensors and sections stand for, before compilation.
// The one thing to know: a tensor and a section each have a lock of their own and a graph has one; they are
// taken in the order graph, tensor, section.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/Hash.h"
#include "bindings/synapse/graph/GraphDescription.h"
#include "habanalabs/synapse_api.h"

namespace hpu::synapse {

class GraphObject;

struct SectionObject {
  const uint32_t id;       ///< synSectionId, unique in its graph.
  const uint64_t graphId;  ///< Of the graph it was created for.
  std::mutex mutex;        // Guards what follows.
  uint64_t group = 0;
  bool persistent = true, isConst = false, rmw = false;
  bool used = false;  ///< A tensor was assigned: properties are fixed.

  SectionObject(uint32_t sectionId, uint64_t graph) : id(sectionId), graphId(graph) {}
};

/// The value of a tensor in host memory: the library's copy, or the caller's memory that stays valid until
/// the graph is compiled.
struct HostValue {
  std::shared_ptr<const std::vector<std::byte>> copy;
  base::Hash128 copyHash;   ///< Of the copy's bytes, which duplicates of the graph share.
  void* pointer = nullptr;  ///< The copy's bytes or the caller's.
  uint64_t bytes = 0;
  synDataType type = syn_type_na;
};

/// Quantisation, as set by synTensorSetQuantizationData.
struct QuantizationData {
  synDataType zpType = syn_type_na;  ///< Of zpScales.
  synDataType fpType = syn_type_na;  ///< Of fpParams.
  std::vector<synQuantZPScale> zpScales;
  std::vector<synFpQuantParam> fpParams;
  std::vector<synQuantDynamicRange> channelRanges;
  synQuantDynamicRange range = {0, 0};
  synQuantFlags flags = {0, 0, 0};
};

/// The properties of a tensor that its user sets.
struct TensorProperties {
  std::string name;
  synTensorType type = DATA_TENSOR;
  synDataType dataType = syn_type_na;
  uint32_t dims = 0;    ///< 0: no geometry given.
  bool hasMin = false;  ///< minSizes was given; else it is maxSizes.
  std::vector<uint64_t> maxSizes, minSizes;
  std::vector<uint8_t> permutation;
  std::vector<uint64_t> strides;  ///< In bytes; empty: dense.
  HostValue host;
  std::shared_ptr<const QuantizationData> quantization;
  uint64_t offset = 0;
  int8_t allowPermutation = 0;
  bool external = false;
  uint32_t set = 0;  ///< synTensorProperty bits of what was given.
  std::shared_ptr<SectionObject> section;
  synSectionHandle sectionHandle = nullptr;

  /// Const data, as opposed to a default of a host-to-device tensor.
  bool isConstant() const { return host.pointer && type != HOST_TO_DEVICE_TENSOR; }
  bool isPersistent() const;
};

struct TensorObject {
  const uint64_t id;  ///< Unique in the process.
  std::mutex mutex;   // Guards the three.
  TensorProperties properties;
  uint64_t graphId = 0;     ///< 0: created without a graph, and belongs to the first that uses it.
  bool locked = false;      ///< A node uses it: properties are fixed.
  bool duplicated = false;  ///< By synGraphDuplicate: sizes may be given although nodes use it.
  std::atomic<bool> sizedAfterDuplication = false;

  // Guarded by the mutex of the graph.
  int32_t index = kNoTensor;  ///< While a description is made.
  bool hasProducer = false;

  TensorObject();
};

struct NodeRecord {
  NodeDescription description;  ///< Without inputs and outputs.
  std::vector<std::shared_ptr<TensorObject>> inputs, outputs;
  bool runsOnMme = false;
  bool hasOrder = false;  ///< synNodeSetUserProgrammability was called.
  uint32_t orderGroup = 0, orderIndex = 0;
};

class GraphObject {
 public:
  const uint64_t id;
  const synDeviceType deviceType;
  const Target target;
  const bool eager;
  /// Set by synGraphDuplicate: the one kind that SynapseAI infers shapes of.
  bool duplicated = false;

  GraphObject(synDeviceType type, Target t, bool isEager);

  std::mutex mutex;  // Guards what follows.
  bool compiled = false;
  bool inference = false, quantization = false;
  double backoffFactor = 1;
  uint32_t nextSection = kFirstSection;
  std::vector<NodeRecord> nodes;         ///< By rising id.
  std::vector<synTensor> tensorHandles;  ///< Live ones and some destroyed; destroyed with the graph.
  std::vector<std::pair<std::string, synDataType>> precisions;  ///< By node type, lower case.
  std::vector<synSectionHandle> ownSections;                    ///< Of a duplicate, which made them; destroyed with it.

  /// The node, or null. The mutex is held.
  NodeRecord* findNode(synNodeId nodeId);

  /// Ids below are the workspace's and the program's in SynapseAI.
  static constexpr uint32_t kFirstSection = 4;
};

/// Node ids are unique in the process and rise.
synNodeId nextNodeId();

/// "Gaudi2" for messages.
std::string deviceTypeName(synDeviceType type);

}  // namespace hpu::synapse
