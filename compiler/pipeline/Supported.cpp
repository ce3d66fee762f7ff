// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/Supported.h"

#include "arch/TargetDesc.h"
#include "base/Clip.h"
#include "base/Format.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/kernels/KernelCompiler.h"
#include "compiler/support/Units.h"

using namespace mlir;

namespace hpu::pipeline {
namespace {

using base::strCat;

std::string describe(mlir::Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  if (ir::hasNamedSizes(type)) return "tensor of " + ir::typeToString(type);
  return strCat(elementTypeName(ir::elementType(type.getElementType())), " tensor of ", shapeToString(type.getShape()));
}

constexpr int64_t kMaxRank = 8;  // Of an operand in a recipe.

/// Why no engine can do the op; empty if one can.
std::string obstacle(Operation* op, const arch::TargetDesc& target) {
  SmallVector<mlir::Value> values(op->getOperands());
  llvm::append_range(values, op->getResults());
  for (mlir::Value value : values) {
    auto type = cast<RankedTensorType>(value.getType());
    if (type.getRank() > kMaxRank) return strCat("a ", describe(value), " has more than ", kMaxRank, " dimensions");
    if (type.hasStaticShape() && type.getNumElements() == 0)
      return strCat("a ", describe(value), " has no elements, and engines take none without");
  }
  if (isa<ir::ConstantOp>(op)) return {};
  auto hpuOp = cast<ir::HpuOp>(op);
  if (hpuOp.getEngine() == ir::EngineKind::Mme) {
    for (mlir::Value operand : {op->getOperand(0), op->getOperand(1)}) {
      ElementType type = ir::elementType(cast<RankedTensorType>(operand.getType()).getElementType());
      if (!target.hasMmeType(type))
        return strCat("a ", describe(operand), " on the MME of ", target.name, ", which multiplies ",
                      target.mmeTypeNames(), "; export the model in f32");
    }
    return {};
  }
  if (hpuOp.isView()) return {};
  // A DMA copies anything; where there is none, the parts of a long concatenation have a kernel each.
  if (isa<ir::ConcatOp>(op) && (target.numDmas > 0 || op->getNumOperands() >= ir::kMaxKernelTensors)) return {};
  std::string why;
  if (!kernels::canFormKernel(op, &why)) return why;
  return {};
}

UnsupportedNode::Value described(mlir::Value value) {
  std::vector<ir::SourceName> names = ir::sourceNames(value.getLoc());
  const bool isInput = isa<BlockArgument>(value) && !names.empty();
  return {isInput ? names.front().node : std::string(), ir::typeToString(cast<RankedTensorType>(value.getType()))};
}

std::string helpFor(StringRef why) {
  if (why.contains("dimensions"))
    return strCat("reshape to at most ", kMaxRank,
                  " dimensions (join those that stay beside each other) before the node");
  if (why.contains("no elements"))
    return "leave the node out where it has nothing to do, or give its free dimension another size";
  if (why.contains("MME")) return "export the model in f32, or put a Cast before the node";
  if (why.contains("elements") || why.contains("type") || why.contains("float") || why.contains("integer"))
    return "write the node with other ops, or in another type (a Cast before it)";
  return "write the node with other ops";
}

}  // namespace

Status checkSupported(func::FuncOp function, const arch::TargetDesc& target,
                      std::vector<UnsupportedNode>* unsupported) {
  std::vector<UnsupportedNode> found;
  auto add = [&](Operation* op, const std::string& why) {
    std::vector<ir::SourceName> names = ir::sourceNames(op->getLoc());
    ir::SourceName name = names.empty() ? ir::SourceName{"", op->getName().stripDialect().str()} : names.front();
    UnsupportedNode& node = found.emplace_back();
    node.op = name.op.empty() ? op->getName().stripDialect().str() : name.op;
    node.node = name.node;
    node.reason = why;
    for (mlir::Value operand : op->getOperands()) node.inputs.push_back(described(operand));
    for (mlir::Value result : op->getResults()) node.outputs.push_back(described(result));
    node.help = helpFor(why);
  };
  for (Operation& op : function.getBody().front().without_terminator())
    if (std::string why = isa<ir::HpuOp>(op) && !isa<ir::ConstantOp>(op) ? obstacle(&op, target) : ""; !why.empty())
      add(&op, why);
  // An empty one is nothing to copy.
  for (OpOperand& output : function.getBody().front().getTerminator()->getOpOperands())
    if (auto constant = output.get().getDefiningOp<ir::ConstantOp>())
      if (std::string why =
              cast<RankedTensorType>(constant.getType()).getNumElements() != 0 ? obstacle(constant, target) : "";
          !why.empty())
        add(constant, why);
  // What no op reads: else the op has told.
  Operation* end = function.getBody().front().getTerminator();
  for (BlockArgument argument : function.getArguments())
    if (auto rank = cast<RankedTensorType>(argument.getType()).getRank();
        rank > kMaxRank && llvm::all_of(argument.getUsers(), [&](Operation* user) { return user == end; })) {
      auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "hpu.name");
      UnsupportedNode& node = found.emplace_back();
      node.op = "input";
      node.node = name ? name.str() : strCat(argument.getArgNumber());
      node.reason = strCat("a ", describe(argument), " has more than ", kMaxRank, " dimensions");
      node.outputs.push_back(described(argument));
      node.help = helpFor(node.reason);
    }
  if (found.empty()) return okStatus();
  // Names in a damaged file may have any length.
  constexpr size_t kMostLines = 200;
  auto line = [](const UnsupportedNode& node) {
    return base::clipped(strCat(node.op, " '", node.node, "': ", node.reason));
  };
  std::string text = found.size() == 1 ? line(found[0]) : strCat(found.size(), " nodes that no engine can do:");
  if (found.size() > 1)
    for (const UnsupportedNode& node : ArrayRef(found).take_front(kMostLines)) text += "\n  " + line(node);
  if (found.size() > kMostLines) text += strCat("\n  and ", found.size() - kMostLines, " more");
  if (unsupported) unsupported->insert(unsupported->end(), found.begin(), found.end());
  return Status(StatusCode::kUnimplemented, std::move(text));
}

}  // namespace hpu::pipeline
