// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/NativeKernel.h"

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/kernels/ImageLinker.h"
#include "compiler/kernels/PlanBuilder.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace hpu::kernels {

std::optional<StatusOr<PlannedKernel>> planNative(const KernelGraph& graph, llvm::ArrayRef<OperandView> inputs,
                                                  llvm::ArrayRef<OperandView> outputs) {
  const Node* node = nullptr;
  size_t ops = 0;
  for (const Node& each : graph.nodes) {
    ops += each.kind != Node::Kind::Input;
    if (each.is<ir::NativeOp>()) node = &each;
  }
  if (!node) return std::nullopt;
  if (ops != 1 || outputs.size() != 1)
    return unimplemented("a kernel in object code is one by itself; no other op joins it");
  auto native = std::make_shared<NativeKernel>();
  native->object = node->textAttr("object").str();
  native->objectV4 = node->textAttr("object_v4").str();
  native->entry = node->textAttr("entry").str();
  native->scratchBytes = node->intAttr("scratch_bytes");
  const llvm::ArrayRef<double> cost = node->floatsAttr("cost");
  native->cost = {cost[0], cost[1], cost[2], cost[3]};
  native->space = outputs[0].sizes;
  PlannedKernel kernel;
  kernel.rank = static_cast<uint32_t>(outputs[0].sizes.size());
  for (int64_t dim : node->intsAttr("whole")) kernel.wholeDims |= 1u << dim;
  kernel.numInputs = static_cast<int>(inputs.size());
  kernel.numOutputs = 1;
  for (size_t i = 0; i < node->operands.size(); ++i)
    if (graph.nodes[node->operands[i]].input != static_cast<int>(i))
      return unimplemented("a kernel in object code takes an operand twice; give it a copy");
  llvm::ArrayRef<int64_t> reads = node->intsAttr("reads");
  for (const OperandView& view : inputs) {
    std::vector<SymDimRead>& own = kernel.reads.emplace_back();
    for (int64_t dim : reads.take_front(view.sizes.size())) {
      SymDimRead read;
      if (dim >= 0) read.dim = static_cast<int>(dim), read.scale = 1;
      own.push_back(read);
    }
    reads = reads.drop_front(view.sizes.size());
  }
  bool isLate = false;
  auto add = [&](const OperandView& view) {
    for (const auto* numbers : {&view.sizes, &view.strides})
      for (const SymInt& number : *numbers) {
        native->dims.push_back(number);
        isLate |= !number.isConstant();
      }
  };
  for (const OperandView& view : inputs) add(view);
  add(outputs[0]);
  for (int64_t number : node->intsAttr("params")) native->dims.push_back(number);
  for (const SymInt& number : native->dims)
    if (number.isUnknown())
      return unimplemented("a kernel in object code needs a size that no expression of the free dimensions gives");
  if (isLate) kernel.dims = native->dims;
  kernel.native = std::move(native);
  return kernel;
}

void emitNative(ModuleOp module, StringRef name, const PlannedKernel& kernel) {
  OpBuilder b(module.getBodyRegion());
  Location loc = b.getUnknownLoc();
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), {pointer});
  auto native = LLVM::LLVMFuncOp::create(b, loc, kNativeName, type);
  const std::vector<SymInt>& dims = kernel.native->dims;
  LLVM::GlobalOp table;
  const bool isLate = !kernel.dims.empty();
  if (!isLate && !dims.empty()) {
    std::vector<int64_t> numbers;
    for (const SymInt& number : dims) numbers.push_back(number.value());
    const auto count = static_cast<int64_t>(numbers.size());
    auto value = DenseElementsAttr::get(RankedTensorType::get({count}, b.getI64Type()), ArrayRef<int64_t>(numbers));
    table = LLVM::GlobalOp::create(b, loc, LLVM::LLVMArrayType::get(b.getI64Type(), static_cast<unsigned>(count)),
                                   /*isConstant=*/true, LLVM::Linkage::Internal, "dims", value, 64);
  }
  auto function = LLVM::LLVMFuncOp::create(b, loc, name, type);
  Block* entry = function.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  Value args = entry->getArgument(0);
  if (table) {  // A copy of the arguments, with the table for dims.
    constexpr int kFields = 5, kDims = 3;
    Value count = LLVM::ConstantOp::create(b, loc, b.getI64Type(), b.getI64IntegerAttr(1));
    auto structure = LLVM::LLVMArrayType::get(pointer, kFields);
    Value copy = LLVM::AllocaOp::create(b, loc, pointer, structure, count, 8);
    for (int32_t field = 0; field < kFields; ++field) {
      Value from = LLVM::GEPOp::create(b, loc, pointer, pointer, args, ArrayRef<LLVM::GEPArg>{field});
      Value to = LLVM::GEPOp::create(b, loc, pointer, pointer, copy, ArrayRef<LLVM::GEPArg>{field});
      Value value = field == kDims ? Value(LLVM::AddressOfOp::create(b, loc, table))
                                   : Value(LLVM::LoadOp::create(b, loc, pointer, from));
      LLVM::StoreOp::create(b, loc, value, to);
    }
    args = copy;
  }
  LLVM::CallOp::create(b, loc, native, ValueRange{args});
  LLVM::ReturnOp::create(b, loc, ValueRange());
}

recipe::TpcCost nativeCost(const NativeKernel& kernel, std::vector<CostTerm>* terms) {
  if (terms) {
    CostTerm term{kernel.cost, {}};
    for (const SymInt& size : kernel.space) {
      if (!size.isConstant()) {
        term.trips.push_back(size);
        continue;
      }
      const auto times = static_cast<double>(size.value());
      term.slots = {term.slots.loads * times, term.slots.stores * times, term.slots.vectorOps * times,
                    term.slots.scalarOps * times};
    }
    *terms = {std::move(term)};
  }
  return kernel.cost;
}

}  // namespace hpu::kernels
