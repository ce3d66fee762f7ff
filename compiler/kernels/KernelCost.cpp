// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/KernelCost.h"

#include <map>

#include "compiler/kernels/LoopEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace hpu::kernels {
namespace {

constexpr double kIterativeOps = 8, kIntegerDivision = 32;

/// Vector registers that a vector of TPC lanes of this element type fills.
double registers(Type type) {
  Type element = getElementTypeOrSelf(type);
  unsigned bits = element.isIntOrFloat() ? std::max(8u, element.getIntOrFloatBitWidth()) : 64;
  return static_cast<double>(bits) * kTpcLanes / 8.0 / 256.0;
}

bool isF64(Type type) {
  return getElementTypeOrSelf(type).isF64();
}

/// Instructions on 64 lanes for an op on f64, which no TPC has; 0 for other ops. Counted over the steps of IEEE 754
/// arithmetic in integers on halves of 32 bits, without branches: taking apart, aligning or multiplying (four products
/// of 32 bits), normalising, rounding to even, and what is no finite number (docs/performance-model.md).
double emulatedInstructions(Operation& op) {
  constexpr double kAdd = 64, kMultiply = 52, kMultiplyAdd = 120, kDivide = 200, kCompare = 8, kConvert = 20,
                   kWhole = 16;
  if (op.hasAttr(kPairAttr)) return 0;
  if (llvm::none_of(op.getOperandTypes(), isF64) && llvm::none_of(op.getResultTypes(), isF64)) return 0;
  if (isa<arith::AddFOp, arith::SubFOp>(op)) return kAdd;
  if (isa<arith::MulFOp>(op)) return kMultiply;
  if (isa<math::FmaOp>(op)) return kMultiplyAdd;
  if (isa<arith::DivFOp, math::SqrtOp>(op)) return kDivide;
  if (isa<arith::CmpFOp>(op)) return kCompare;
  if (isa<arith::ExtFOp, arith::TruncFOp, arith::SIToFPOp, arith::UIToFPOp, arith::FPToSIOp, arith::FPToUIOp>(op))
    return kConvert;
  if (isa<math::FloorOp, math::CeilOp, math::TruncOp, math::RoundEvenOp>(op)) return kWhole;
  return 0;
}

/// Indices and addresses: a TPC computes them beside its tensor accesses.
bool isAddressing(Type type) {
  return isa<LLVM::LLVMPointerType>(type) || type.isInteger(64) || type.isInteger(1);
}

/// A TPC selects by comparing (v_f32_sel_less_f32_b and its like): such a comparison is no instruction of its own.
bool onlySelects(Operation& op) {
  return isa<arith::CmpFOp, arith::CmpIOp>(op) && llvm::all_of(op.getUses(), [](OpOperand& use) {
           return isa<arith::SelectOp>(use.getOwner()) && use.getOperandNumber() == 0;
         });
}

double access(Operation& op) {
  auto local = op.getAttrOfType<FloatAttr>(kLocalAttr);
  return local ? kLocalAccess * local.getValueAsDouble() : 1;
}

/// How often an op runs: at the representatives; and the constant, with the trips that are none, that it is a product
/// of.
struct Weight {
  double number = 1, constant = 1;
  std::vector<int64_t> late;

  Weight times(Operation& op, StringRef tripsAttr, StringRef lateAttr, double otherwise) const {
    auto trips = op.getAttrOfType<FloatAttr>(tripsAttr);
    const double count = trips ? trips.getValueAsDouble() : otherwise;
    Weight result = *this;
    result.number *= count;
    if (auto index = op.getAttrOfType<IntegerAttr>(lateAttr))
      result.late.push_back(index.getInt());
    else
      result.constant *= count;
    return result;
  }
};

struct Walk {
  recipe::TpcCost cost;
  std::map<std::vector<int64_t>, recipe::TpcCost> terms;  ///< By Weight::late.

  void add(const Weight& weight, double recipe::TpcCost::* field, double slots, double factor = 1) {
    cost.*field += weight.number * slots * factor;
    terms[weight.late].*field += weight.constant * slots * factor;
  }

  void block(Block& b, const Weight& weight) {
    for (Operation& op : b) visit(op, weight);
  }

  void visit(Operation& op, const Weight& weight) {
    if (isa<scf::ForOp, scf::IfOp, scf::WhileOp>(op)) {
      const Weight inner = weight.times(op, kTripsAttr, kLateTripsAttr, 1);
      if (isa<scf::ForOp>(op) && !op.hasAttr(kUnrolledAttr)) add(inner, &recipe::TpcCost::scalarOps, 1);
      for (Region& region : op.getRegions()) {
        if (region.empty()) continue;
        bool isElse = isa<scf::IfOp>(op) && region.getRegionNumber() == 1;
        block(region.front(), isElse ? weight.times(op, kElseTripsAttr, kLateElseTripsAttr, 0) : inner);
      }
      return;
    }
    if (isa<arith::ConstantOp, arith::BitcastOp, scf::YieldOp, scf::ConditionOp, LLVM::AllocaOp, LLVM::ConstantOp,
            LLVM::AddressOfOp, LLVM::ReturnOp>(op))
      return;
    if (const double instructions = emulatedInstructions(op)) {
      const bool isVector = isa<VectorType>(op.getResult(0).getType());
      add(weight, isVector ? &recipe::TpcCost::vectorOps : &recipe::TpcCost::scalarOps, instructions);
      return;
    }
    // A TPC's vector instructions take scalars as operands.
    if (op.hasAttr(kPartAttr) || onlySelects(op) || isa<vector::BroadcastOp>(op)) return;
    if (auto load = dyn_cast<LLVM::LoadOp>(op)) {
      bool vector = isa<VectorType>(load.getType());
      if (isa<LLVM::LLVMPointerType>(load.getType())) return;
      add(weight, vector ? &recipe::TpcCost::loads : &recipe::TpcCost::scalarOps,
          vector ? registers(load.getType()) * access(op) : 1);
    } else if (auto masked = dyn_cast<LLVM::MaskedLoadOp>(op)) {
      add(weight, &recipe::TpcCost::loads, registers(masked.getType()));
    } else if (isa<LLVM::masked_gather>(op)) {
      add(weight, &recipe::TpcCost::scalarOps, kTpcLanes);
    } else if (auto store = dyn_cast<LLVM::StoreOp>(op)) {
      Type type = store.getValue().getType();
      bool vector = isa<VectorType>(type);
      add(weight, vector ? &recipe::TpcCost::stores : &recipe::TpcCost::scalarOps,
          vector ? registers(type) * access(op) : 1);
    } else if (auto masked = dyn_cast<LLVM::MaskedStoreOp>(op)) {
      add(weight, &recipe::TpcCost::stores, registers(masked.getValue().getType()));
    } else if (op.getNumResults() == 1 && isa<VectorType>(op.getResult(0).getType())) {
      if (isa<LLVM::GEPOp>(op)) return;  // Part of the strided load.
      double size = registers(op.getResult(0).getType());
      for (Type type : op.getOperandTypes())
        if (isa<VectorType>(type)) size = std::max(size, registers(type));
      double factor = 1;
      if (isa<arith::DivFOp, math::SqrtOp>(op)) factor = kIterativeOps;
      if (isa<arith::ExtFOp, arith::TruncFOp>(op)) factor = kNarrowConversion;
      if (isa<arith::DivSIOp, arith::DivUIOp>(op)) factor = kIntegerDivision;
      if (auto instructions = op.getAttrOfType<FloatAttr>(kInstructionsAttr)) factor = instructions.getValueAsDouble();
      add(weight, &recipe::TpcCost::vectorOps, size, factor);
    } else if (op.getNumResults() == 1 && !isAddressing(op.getResult(0).getType())) {
      add(weight, &recipe::TpcCost::scalarOps, 1);
    }
  }
};

Walk walked(ModuleOp module) {
  Walk walk;
  for (auto function : module.getOps<LLVM::LLVMFuncOp>())
    if (!function.isExternal()) walk.block(function.getBody().front(), {});
  return walk;
}

}  // namespace

recipe::TpcCost kernelCost(ModuleOp module, double points) {
  Walk walk = walked(module);
  double each = 1.0 / std::max(points, 1.0);
  walk.cost.loads *= each;
  walk.cost.stores *= each;
  walk.cost.vectorOps *= each;
  walk.cost.scalarOps *= each;
  return walk.cost;
}

std::vector<CostTerm> kernelCostTerms(ModuleOp module, llvm::ArrayRef<shape::SymInt> trips) {
  std::vector<CostTerm> terms;
  for (const auto& [late, slots] : walked(module).terms) {
    if (slots.loads == 0 && slots.stores == 0 && slots.vectorOps == 0 && slots.scalarOps == 0) continue;
    CostTerm& term = terms.emplace_back(CostTerm{slots, {}});
    for (int64_t index : late) term.trips.push_back(trips[static_cast<size_t>(index)]);
  }
  return terms;
}

}  // namespace hpu::kernels
