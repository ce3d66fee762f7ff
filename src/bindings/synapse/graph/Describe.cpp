// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/graph/Describe.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/Format.h"
#include "base/PerThread.h"
#include "base/StatusMacros.h"
#include "bindings/synapse/graph/DataTypes.h"
#include "bindings/synapse/graph/GuidList.h"

namespace hpu::synapse {
namespace {

class Describer {
 public:
  explicit Describer(GraphObject& graph) : graph_(graph) {}

  StatusOr<DescribedGraph> run() {
    GraphDescription& out = result_.graph;
    out.target = graph_.target;
    out.inference = graph_.inference;
    out.eager = graph_.eager;
    out.nodes.reserve(graph_.nodes.size());
    Status status = addNodes();
    for (auto& tensor : result_.tensors) tensor->index = kNoTensor;
    if (!status.ok()) return status;
    applyUserOrder();
    return std::move(result_);
  }

 private:
  Status addNodes() {
    for (const NodeRecord& record : graph_.nodes) {
      NodeDescription& node = result_.graph.nodes.emplace_back(record.description);
      HPU_RETURN_IF_ERROR(addOperands(record.inputs, node.inputs));
      HPU_RETURN_IF_ERROR(addOperands(record.outputs, node.outputs));
      if (!graph_.precisions.empty()) node.precision = precisionOf(node.guid);
    }
    return okStatus();
  }

  uint32_t precisionOf(const std::string& guid) const {
    auto parsed = parseGuid(guid);
    for (const auto& [type, precision] : graph_.precisions)
      if (parsed.ok() && parsed->info->name == type) return precision;
    return 0;
  }

  Status addOperands(const std::vector<std::shared_ptr<TensorObject>>& operands, std::vector<int32_t>& indices) {
    indices.reserve(operands.size());
    for (const auto& operand : operands) {
      if (operand && operand->index == kNoTensor) {
        operand->index = static_cast<int32_t>(result_.tensors.size());
        result_.tensors.push_back(operand);
        HPU_RETURN_IF_ERROR(addTensor(*operand));
      }
      indices.push_back(operand ? operand->index : kNoTensor);
    }
    return okStatus();
  }

  Status addTensor(TensorObject& object) {
    TensorDescription& out = result_.graph.tensors.emplace_back();
    std::optional<base::Hash128>& hash = result_.valueHashes.emplace_back();
    std::lock_guard lock(object.mutex);
    const TensorProperties& in = object.properties;
    out.id = object.id;
    out.name = in.name;
    out.type = in.type;
    out.dataType = in.dataType;
    out.permutation = in.permutation;
    out.strides = in.strides;
    out.external = in.external;
    if (in.section) addSection(in, out);
    // Sizes of a duplicate's intermediate results follow from its inputs.
    bool stale = graph_.duplicated && object.duplicated && !object.sizedAfterDuplication && object.hasProducer &&
                 anyResized() && !isPersistent(out);
    if (in.dims && !stale) {
      out.maxSizes = in.maxSizes;
      out.minSizes = in.hasMin ? in.minSizes : in.maxSizes;
      // Bounds of strides have no order.
      if (isShapeTensor(out) && out.minSizes.size() == out.maxSizes.size())
        for (size_t d = 0; d < out.minSizes.size(); ++d)
          if (out.minSizes[d] > out.maxSizes[d]) std::swap(out.minSizes[d], out.maxSizes[d]);
    }
    result_.dynamic |= isDynamic(out);
    if (in.quantization) addQuantization(*in.quantization, out);
    return in.host.pointer ? addValue(in, out, hash) : okStatus();
  }

  bool isPersistent(const TensorDescription& tensor) const {
    return tensor.section != kNoSection && result_.graph.sections[tensor.section].persistent;
  }

  /// Whether a size was given after the duplication; else the sizes that were copied hold.
  bool anyResized() {
    if (!resizedKnown_) {
      resizedKnown_ = true;
      for (const NodeRecord& node : graph_.nodes)
        for (const auto* list : {&node.inputs, &node.outputs})
          for (const auto& tensor : *list) resized_ |= tensor && tensor->sizedAfterDuplication;
    }
    return resized_;
  }

  void addSection(const TensorProperties& in, TensorDescription& out) {
    out.sectionOffset = in.offset;
    auto at = std::find(sections_.begin(), sections_.end(), in.section.get());
    out.section = static_cast<uint32_t>(at - sections_.begin());
    if (at != sections_.end()) return;
    sections_.push_back(in.section.get());
    std::lock_guard lock(in.section->mutex);
    result_.graph.sections.push_back(
        {in.section->id, in.section->group, in.section->persistent, in.section->isConst, in.section->rmw});
  }

  static void addQuantization(const QuantizationData& in, TensorDescription& out) {
    for (const synQuantZPScale& entry : in.zpScales) {
      out.scales.push_back(entry.scale);
      out.zeroPoints.push_back(entry.zp);
    }
    if (in.zpScales.empty())
      for (const synFpQuantParam& entry : in.fpParams) out.scales.push_back(entry.scale);
    for (const synFpQuantParam& entry : in.fpParams) out.expBiases.push_back(entry.expBias);
  }

  /// The value; of a host-to-device tensor it may be two: the maxima, then the minima (hasValueBounds).
  static Status addValue(const TensorProperties& in, TensorDescription& out, std::optional<base::Hash128>& hash) {
    uint32_t hostType = in.host.type ? uint32_t{in.host.type} : out.dataType;
    uint64_t wanted = bytesOf(out.maxSizes, hostType);
    bool halves = in.type == HOST_TO_DEVICE_TENSOR && in.host.bytes == 2 * wanted;
    const bool isMemory = hostType == out.dataType && in.host.bytes == maxBytes(out);
    if (!out.maxSizes.empty() && in.host.bytes != wanted && !halves && !isMemory)
      return invalidArgument(base::strCat("tensor '", in.name, "': its host buffer has ", in.host.bytes,
                                          " bytes, and its sizes need ", wanted, " of ", dataTypeName(hostType)));
    out.hostType = hostType;
    if (in.host.copy) {
      out.hostData = in.host.copy;
      hash = in.host.copyHash;
    } else {
      const auto* bytes = static_cast<const std::byte*>(in.host.pointer);
      out.hostData = std::make_shared<const std::vector<std::byte>>(bytes, bytes + in.host.bytes);
    }
    return okStatus();
  }

  /// synNodeSetUserProgrammability: within a group, each node runs after the one before it.
  void applyUserOrder() {
    std::map<std::pair<uint32_t, uint32_t>, std::vector<size_t>> places;
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (graph_.nodes[i].hasOrder) places[{graph_.nodes[i].orderGroup, graph_.nodes[i].orderIndex}].push_back(i);
    const std::vector<size_t>* before = nullptr;
    uint32_t group = 0;
    for (const auto& [place, nodes] : places) {
      if (before && group == place.first)
        for (size_t node : nodes)
          for (size_t earlier : *before) result_.graph.nodes[node].after.push_back(result_.graph.nodes[earlier].id);
      before = &nodes;
      group = place.first;
    }
  }

  GraphObject& graph_;
  DescribedGraph result_;
  std::vector<SectionObject*> sections_;
  bool resized_ = false, resizedKnown_ = false;
};

/// Bytes one after another, each list with its length.
class KeyBuffer {
 public:
  KeyBuffer() : bytes_(storage()) { bytes_.clear(); }
  template <typename T>
  void add(const T& value) {
    static_assert(std::is_arithmetic_v<T>);
    raw(&value, sizeof(value));
  }
  void add(const std::string& text) {
    add(text.size());
    raw(text.data(), text.size());
  }
  template <typename T>
  void add(const std::vector<T>& list) {
    add(list.size());
    if constexpr (std::is_same_v<T, std::string>) {
      for (const std::string& text : list) add(text);
    } else {
      raw(list.data(), list.size() * sizeof(T));
    }
  }
  void add(const base::Hash128& hash) {
    add(hash.low);
    add(hash.high);
  }
  base::Hash128 hash() const { return base::hash128(bytes_.data(), bytes_.size()); }

 private:
  static std::vector<char>& storage() {
    // Kept between keys: an eager graph's costs no allocation.
    struct Bytes {
      std::vector<char> bytes;
    };
    return base::perThread<Bytes>().bytes;
  }
  void raw(const void* data, size_t size) {
    if (size) bytes_.insert(bytes_.end(), static_cast<const char*>(data), static_cast<const char*>(data) + size);
  }
  std::vector<char>& bytes_;
};

void addTensor(KeyBuffer& key, const TensorDescription& tensor, bool names,
               const std::optional<base::Hash128>& valueHash, bool sizes) {
  if (names) key.add(tensor.name);
  key.add(tensor.type);
  key.add(tensor.dataType);
  if (sizes || tensor.hostData) {
    key.add(tensor.maxSizes);
    key.add(tensor.minSizes);
  } else {
    key.add(tensor.maxSizes.size());
    for (uint64_t size : tensor.maxSizes) key.add(std::min<uint64_t>(size, 2));
  }
  key.add(tensor.permutation);
  key.add(tensor.strides);
  key.add(tensor.section);
  key.add(tensor.sectionOffset);
  key.add(tensor.external);
  key.add(tensor.hostType);
  key.add(tensor.hostData ? uint64_t{tensor.hostData->size()} : UINT64_MAX);
  if (tensor.hostData)
    key.add(valueHash ? *valueHash : base::hash128(tensor.hostData->data(), tensor.hostData->size()));
  key.add(tensor.scales);
  key.add(tensor.zeroPoints);
  key.add(tensor.expBiases);
}

/// Ids of nodes rise, so the place of one is found by bisection.
uint64_t placeOf(const GraphDescription& graph, uint64_t id) {
  auto at = std::lower_bound(graph.nodes.begin(), graph.nodes.end(), id,
                             [](const NodeDescription& n, uint64_t wanted) { return n.id < wanted; });
  return at != graph.nodes.end() && at->id == id ? static_cast<uint64_t>(at - graph.nodes.begin()) : id;
}

void addNode(KeyBuffer& key, const GraphDescription& graph, const NodeDescription& node, bool names) {
  if (names) key.add(node.name);
  key.add(node.guid);
  key.add(node.inputs);
  key.add(node.outputs);
  key.add(node.params);
  key.add(node.inputLayouts);
  key.add(node.outputLayouts);
  key.add(node.after.size());
  for (uint64_t id : node.after) key.add(placeOf(graph, id));
  key.add(node.roundingMode);
  key.add(node.deterministic);
  key.add(node.precision);
}

}  // namespace

StatusOr<DescribedGraph> describe(GraphObject& graph) {
  return Describer(graph).run();
}

base::Hash128 structureKey(const GraphDescription& graph, bool names,
                           const std::vector<std::optional<base::Hash128>>& valueHashes, bool sizes) {
  KeyBuffer key;
  if (!sizes) key.add(uint8_t{1});
  if (names) key.add(graph.name);
  key.add(static_cast<uint32_t>(graph.target));
  key.add(graph.inference);
  key.add(graph.eager);
  key.add(graph.tensors.size());
  for (size_t i = 0; i < graph.tensors.size(); ++i)
    addTensor(key, graph.tensors[i], names, i < valueHashes.size() ? valueHashes[i] : std::nullopt, sizes);
  key.add(graph.sections.size());
  for (const SectionDescription& section : graph.sections) {
    key.add(section.persistent);
    key.add(section.isConst);
    key.add(section.rmw);
  }
  key.add(graph.nodes.size());
  for (const NodeDescription& node : graph.nodes) addNode(key, graph, node, names);
  return key.hash();
}

uint64_t maxElements(const TensorDescription& tensor) {
  unsigned __int128 count = 1;
  for (uint64_t size : tensor.maxSizes) count = std::min<unsigned __int128>(count * size, UINT64_MAX);
  return static_cast<uint64_t>(count);
}

uint64_t maxBytes(const TensorDescription& tensor) {
  return extentOf(tensor, tensor.maxSizes);
}

bool isDynamic(const TensorDescription& tensor) {
  return tensor.minSizes != tensor.maxSizes;
}

bool isShapeTensor(const TensorDescription& tensor) {
  return tensor.type == SHAPE_TENSOR || tensor.type == INPUT_DESCRIBING_SHAPE_TENSOR ||
         tensor.type == DEVICE_SHAPE_TENSOR || tensor.type == HOST_SHAPE_TENSOR;
}

}  // namespace hpu::synapse
