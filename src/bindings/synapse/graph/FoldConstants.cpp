// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/graph/FoldConstants.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "bindings/synapse/graph/DataTypes.h"
#include "bindings/synapse/graph/Describe.h"
#include "bindings/synapse/graph/GuidList.h"
#include "bindings/synapse/graph/HostValues.h"
#include "habanalabs/perf_lib_layer_params.h"
#include "habanalabs/synapse_common_types.h"

namespace hpu::synapse {
namespace {

using Bytes = std::vector<std::byte>;
using Sizes = std::vector<uint64_t>;

bool isPlainFloat(uint32_t type) {
  return type == syn_type_single || type == syn_type_bf16 || type == syn_type_fp16;
}
/// Integers that f32 has.
bool isNarrowInteger(uint32_t type) {
  return type == syn_type_int8 || type == syn_type_uint8 || type == syn_type_int16 || type == syn_type_uint16;
}

/// NumPy's, from index 0.
std::optional<Sizes> broadcastSizes(const Sizes& a, const Sizes& b) {
  Sizes all(std::max(a.size(), b.size()), 1);
  for (size_t d = 0; d < all.size(); ++d) {
    const uint64_t one = d < a.size() ? a[d] : 1, other = d < b.size() ? b[d] : 1;
    if (one != other && one != 1 && other != 1) return std::nullopt;
    all[d] = one == 1 ? other : one;
  }
  return all;
}

/// Where the element of `sizes` is that element `at` of `all` takes.
uint64_t sourceOf(uint64_t at, const Sizes& all, const Sizes& sizes) {
  uint64_t source = 0, step = 1;
  for (size_t d = 0; d < all.size(); ++d) {
    const uint64_t place = at % all[d];
    at /= all[d];
    if (d >= sizes.size()) continue;
    if (sizes[d] != 1) source += place * step;
    step *= sizes[d];
  }
  return source;
}

class Folder {
 public:
  explicit Folder(GraphDescription& graph) : graph_(graph) {}

  void run() {
    if (std::none_of(graph_.tensors.begin(), graph_.tensors.end(),
                     [&](const TensorDescription& t) { return t.hostData && isInConstSection(t); }))
      return;
    for (bool changes = true; changes;) {
      changes = false;
      countUses();
      for (size_t n = 0; n < graph_.nodes.size() && !changes; ++n) changes = fold(n);
    }
  }

 private:
  bool isInConstSection(const TensorDescription& tensor) const {
    return tensor.section != kNoSection && graph_.sections[tensor.section].persistent &&
           graph_.sections[tensor.section].isConst;
  }
  TensorDescription& tensor(int32_t t) { return graph_.tensors[static_cast<size_t>(t)]; }

  void countUses() {
    uses_.assign(graph_.tensors.size(), 0);
    produced_.assign(graph_.tensors.size(), false);
    for (const NodeDescription& node : graph_.nodes) {
      for (int32_t t : node.inputs)
        if (t != kNoTensor) ++uses_[static_cast<size_t>(t)];
      for (int32_t t : node.outputs)
        if (t != kNoTensor) produced_[static_cast<size_t>(t)] = true;
    }
  }

  /// The value in the device's type, where this tensor is a constant that can be computed with.
  std::optional<Bytes> valueOf(int32_t t) {
    if (t == kNoTensor || produced_[static_cast<size_t>(t)]) return std::nullopt;
    const TensorDescription& one = tensor(t);
    const bool isValue = one.hostData && (one.section == kNoSection || isInConstSection(one));
    if (!isValue || one.type != DATA_TENSOR || isDynamic(one) || !one.permutation.empty() || !one.scales.empty() ||
        !one.zeroPoints.empty() || !one.expBiases.empty() || one.maxSizes.empty())
      return std::nullopt;
    if (std::any_of(one.strides.begin(), one.strides.end(), [](uint64_t stride) { return stride != 0; }))
      return std::nullopt;
    auto value = convertValues(*one.hostData, one.hostType ? one.hostType : one.dataType, one.dataType, graph_.target);
    if (!value.ok() || value->size() != bytesOf(one.maxSizes, one.dataType)) return std::nullopt;
    return std::move(*value);
  }

  struct Result {
    Sizes sizes;
    uint32_t type = 0;
    Bytes bytes;
  };

  /// To nearest even, and saturated in an integer, as a cast node without other wishes does it.
  std::optional<Result> cast(const NodeDescription& node, const ParsedGuid& guid) {
    int32_t rounding = CAST_ROUND_DEFAULT;
    if (node.params.size() >= sizeof rounding) std::memcpy(&rounding, node.params.data(), sizeof rounding);
    if (node.inputs.size() != 1 || (rounding != CAST_ROUND_DEFAULT && rounding != CAST_ROUND_HALF_NE))
      return std::nullopt;
    std::optional<Bytes> value = valueOf(node.inputs[0]);
    if (!value) return std::nullopt;
    const TensorDescription& x = tensor(node.inputs[0]);
    const bool isPlain = isPlainFloat(guid.type) || (isNarrowInteger(guid.type) && isPlainFloat(guid.to));
    if (x.dataType != guid.type || !isPlain || !(isPlainFloat(guid.to) || isNarrowInteger(guid.to)))
      return std::nullopt;
    uint32_t from = guid.type;
    if (isNarrowInteger(guid.to)) {
      auto wide = convertValues(*value, from, syn_type_single, graph_.target);
      if (!wide.ok()) return std::nullopt;
      for (size_t i = 0; i + sizeof(float) <= wide->size(); i += sizeof(float)) {
        float number;
        std::memcpy(&number, wide->data() + i, sizeof number);
        number = std::nearbyint(number);
        std::memcpy(wide->data() + i, &number, sizeof number);
      }
      value = std::move(*wide);
      from = syn_type_single;
    }
    auto converted = convertValues(*value, from, guid.to, graph_.target);
    if (!converted.ok()) return std::nullopt;
    return Result{x.maxSizes, guid.to, std::move(*converted)};
  }

  /// In f32, rounded once, as the device adds.
  std::optional<Result> add(const NodeDescription& node, const ParsedGuid& guid) {
    if (node.inputs.size() != 2 || !isPlainFloat(guid.type)) return std::nullopt;
    std::optional<Bytes> a = valueOf(node.inputs[0]), b = valueOf(node.inputs[1]);
    if (!a || !b) return std::nullopt;
    const TensorDescription &one = tensor(node.inputs[0]), &other = tensor(node.inputs[1]);
    std::optional<Sizes> sizes = broadcastSizes(one.maxSizes, other.maxSizes);
    if (one.dataType != guid.type || other.dataType != guid.type || !sizes) return std::nullopt;
    auto wideA = convertValues(*a, guid.type, syn_type_single, graph_.target);
    auto wideB = convertValues(*b, guid.type, syn_type_single, graph_.target);
    if (!wideA.ok() || !wideB.ok()) return std::nullopt;
    auto at = [](const Bytes& bytes, uint64_t i) {
      float value;
      std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
      return value;
    };
    Bytes sums(bytesOf(*sizes, syn_type_single));
    for (uint64_t i = 0; i < sums.size() / sizeof(float); ++i) {
      const float sum = at(*wideA, sourceOf(i, *sizes, one.maxSizes)) + at(*wideB, sourceOf(i, *sizes, other.maxSizes));
      std::memcpy(sums.data() + i * sizeof sum, &sum, sizeof sum);
    }
    auto narrow = convertValues(sums, syn_type_single, guid.type, graph_.target);
    if (!narrow.ok()) return std::nullopt;
    return Result{std::move(*sizes), guid.type, std::move(*narrow)};
  }

  /// The operand that gets the result: of those in const sections that no other node reads, the first of its section.
  std::optional<int32_t> carrierOf(const NodeDescription& node) {
    std::optional<int32_t> carrier;
    for (int32_t t : node.inputs) {
      if (!isInConstSection(tensor(t))) continue;
      const auto own = static_cast<size_t>(std::count(node.inputs.begin(), node.inputs.end(), t));
      if (uses_[static_cast<size_t>(t)] != own) continue;
      if (!carrier ||
          (tensor(t).section == tensor(*carrier).section && tensor(t).sectionOffset < tensor(*carrier).sectionOffset))
        carrier = t;
    }
    return carrier;
  }

  /// Whether the node is all that reads tensor t, of this section.
  bool goes(int32_t t, const NodeDescription& node, uint32_t section) {
    return tensor(t).section == section && uses_[static_cast<size_t>(t)] == 1 &&
           std::count(node.inputs.begin(), node.inputs.end(), t);
  }

  /// Whether a larger result would reach into another tensor of the section.
  bool hasRoom(int32_t carrier, const Result& result, const NodeDescription& node) {
    const TensorDescription& own = tensor(carrier);
    const uint64_t end = own.sectionOffset + result.bytes.size();
    for (size_t t = 0; t < graph_.tensors.size(); ++t) {
      const TensorDescription& other = graph_.tensors[t];
      if (static_cast<int32_t>(t) == carrier || other.section != own.section || uses_[t] == 0) continue;
      if (goes(static_cast<int32_t>(t), node, own.section)) continue;
      if (other.sectionOffset >= own.sectionOffset && other.sectionOffset < end) return false;
    }
    return true;
  }

  bool fold(size_t n) {
    const NodeDescription node = graph_.nodes[n];
    auto guid = parseGuid(node.guid);
    if (!guid.ok() || node.outputs.size() != 1 || node.outputs[0] == kNoTensor) return false;
    const bool isCast = guid->info->name == "cast";
    if (!isCast && guid->info->name != "add_fwd") return false;
    const TensorDescription& output = tensor(node.outputs[0]);
    if (output.section != kNoSection || output.external || output.type != DATA_TENSOR) return false;
    if (std::count(node.inputs.begin(), node.inputs.end(), kNoTensor)) return false;
    const std::optional<int32_t> carrier = carrierOf(node);
    if (!carrier) return false;
    std::optional<Result> result = isCast ? cast(node, *guid) : add(node, *guid);
    if (!result || (output.dataType && output.dataType != result->type) ||
        (!output.maxSizes.empty() && output.maxSizes != result->sizes) || !hasRoom(*carrier, *result, node))
      return false;
    const uint32_t section = tensor(*carrier).section;
    for (int32_t t : node.inputs)
      if (t != *carrier && goes(t, node, section)) {
        tensor(t).hostData = nullptr;  // Launches may still name it.
        tensor(t).hostType = 0;
      }
    TensorDescription& one = tensor(*carrier);
    one.maxSizes = one.minSizes = result->sizes;
    one.dataType = one.hostType = result->type;
    one.hostData = std::make_shared<const Bytes>(std::move(result->bytes));
    graph_.nodes.erase(graph_.nodes.begin() + static_cast<int64_t>(n));
    for (NodeDescription& other : graph_.nodes) {
      std::replace(other.inputs.begin(), other.inputs.end(), node.outputs[0], *carrier);
      std::erase(other.after, node.id);
    }
    return true;
  }

  GraphDescription& graph_;
  std::vector<size_t> uses_;
  std::vector<bool> produced_;
};

}  // namespace

void foldConstants(GraphDescription& graph) {
  Folder(graph).run();
}

}  // namespace hpu::synapse
