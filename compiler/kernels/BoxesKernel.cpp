// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/BoxesKernel.h"

#include <algorithm>

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/kernels/BoxesCode.h"
#include "compiler/kernels/HostObjects.h"
#include "compiler/kernels/OrderKernel.h"
#include "compiler/kernels/TpcBoxes.h"

namespace hpu::kernels {
namespace {

using namespace ir;

std::optional<boxes::Kind> kindOf(ElementType type) {
  switch (type) {
    case ElementType::kF32:
      return boxes::Kind::kFloat32;
    case ElementType::kBF16:
      return boxes::Kind::kBfloat;
    case ElementType::kF16:
      return boxes::Kind::kFloat16;
    case ElementType::kI64:
      return boxes::Kind::kInt64;
    default:
      return std::nullopt;
  }
}

/// kParts numbers of an operand; nothing where its type is none that the code has.
std::optional<std::vector<SymInt>> partsOf(const Node& node, llvm::ArrayRef<OperandView> inputs) {
  if (node.kind != Node::Kind::Input) return std::nullopt;
  std::vector<SymInt> parts(boxes::kParts, SymInt(0));
  const OperandView& view = inputs[static_cast<size_t>(node.input)];
  const std::optional<boxes::Kind> kind = kindOf(view.type);
  if (!kind) return std::nullopt;
  parts[boxes::kOperand] = static_cast<int64_t>(node.input);
  parts[boxes::kKind] = static_cast<int64_t>(*kind);
  for (size_t d = 0; d < view.strides.size() && d < 3; ++d) parts[boxes::kStride0 + d] = view.strides[d];
  return parts;
}

}  // namespace

std::optional<StatusOr<PlannedKernel>> planBoxesKernel(const KernelGraph& graph, llvm::ArrayRef<OperandView> inputs,
                                                       llvm::ArrayRef<OperandView> outputs) {
  const Node* select = nullptr;
  int ops = 0;
  for (const Node& node : graph.nodes) {
    ops += node.kind == Node::Kind::Op;
    if (node.is<SelectBoxesOp>()) select = &node;
  }
  if (!select) return std::nullopt;
  if (ops != 1 || outputs.size() != 1)
    return StatusOr<PlannedKernel>(unimplemented("hpu.select_boxes is a kernel by itself; no other op joins it"));
  auto native = std::make_shared<NativeKernel>();
  const SymInt& count = outputs[0].sizes[2];
  native->dims = {SymInt(select->intAttr("centred")), count};
  for (size_t k = 0; k < 6; ++k) {
    std::vector<SymInt> parts(boxes::kParts, SymInt(0));
    if (k >= select->operands.size()) {
      parts[boxes::kOperand] = -1;
      parts[boxes::kKind] = static_cast<int64_t>(boxes::Kind::kNone);
    } else {
      const Node& operand = graph.nodes[static_cast<size_t>(select->operands[k])];
      const std::optional<std::vector<SymInt>> found = partsOf(operand, inputs);
      if (!found)
        return StatusOr<PlannedKernel>(unimplemented("hpu.select_boxes of " +
                                                     std::string(elementTypeName(operand.type)) + " (operand " +
                                                     std::to_string(k) + ")"));
      parts = *found;
    }
    native->dims.insert(native->dims.end(), parts.begin(), parts.end());
  }
  native->dims.push_back(static_cast<int64_t>(inputs.size()));
  native->dims.push_back(static_cast<int64_t>(boxes::Kind::kInt64));
  for (const SymInt& stride : outputs[0].strides) native->dims.push_back(stride);

  const HostObject object = boxesObject();
  native->object = object.v3.str();
  native->objectV4 = object.v4.str();
  native->entry = "hpu_select_boxes";
  native->scratchBytes = boxes::kScratchBytes;
  native->space = outputs[0].sizes;
  const Node& most = graph.nodes[static_cast<size_t>(select->operands[3])];
  const std::optional<int64_t> number = inputs[static_cast<size_t>(most.input)].number;
  const int64_t passes = std::clamp<int64_t>(number.value_or(count.value()), 0, count.value());
  const double rows = static_cast<double>(outputs[0].sizes[0].value() * outputs[0].sizes[1].value());
  native->cost = costOfRows(selectBoxesCycles(count.value(), passes, select->intAttr("centred") != 0), rows,
                            rows * static_cast<double>(count.value()));
  // However the chosen ones are found, each is compared with what is behind it, at least with one register.
  native->leastVectorOps = rows * static_cast<double>(count.value()) / 64 * boxOps(false).setUp;

  PlannedKernel kernel;
  kernel.rank = 3;
  kernel.wholeDims = 1u << 2;
  kernel.numInputs = static_cast<int>(inputs.size());
  kernel.numOutputs = 1;
  const int boxesInput = graph.nodes[static_cast<size_t>(select->operands[0])].input;
  for (const OperandView& view : inputs) {
    std::vector<SymDimRead>& reads = kernel.reads.emplace_back();
    for (size_t d = 0; d < view.sizes.size(); ++d) {
      SymDimRead read;
      const bool isClass = d == 1 && view.sizes.size() == 3 && &view - inputs.data() != boxesInput;
      if ((d == 0 && view.sizes.size() == 3) || isClass) read.dim = static_cast<int>(d), read.scale = 1;
      reads.push_back(read);
    }
  }
  if (Status status = takeNumbers(kernel, std::move(native)); !status.ok()) return StatusOr<PlannedKernel>(status);
  return StatusOr<PlannedKernel>(std::move(kernel));
}

}  // namespace hpu::kernels
