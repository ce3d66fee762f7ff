// SPDX-License-Identifier: Apache-2.0
// Collects sections, constants, kernels and descriptors of a program while units are scheduled.
#pragma once

#include <set>

#include "compiler/dialect/sched/SchedOps.h"
#include "compiler/layout/Views.h"
#include "compiler/memory/Memory.h"
#include "mlir/IR/Builders.h"

namespace hpu::schedule {

/// The TPC ops of a unit, and which values they read and write, before they become a kernel.
struct KernelPart {
  llvm::SmallVector<mlir::Operation*> ops;
  llvm::SmallVector<mlir::Value> inputs, outputs;  ///< Values inside the unit's body.
};

class ProgramBuilder {
 public:
  ProgramBuilder(mlir::func::FuncOp function, mlir::OpBuilder& builder);

  sched::ProgramOp program() { return program_; }
  /// The operand for a value at function level: an address (tiles in SRAM, where its unit is chained), or a constant
  /// written densely.
  sched::OperandAttr operand(mlir::Value value);
  /// The same seen with the batch dims broadcast to `batch` (for MME operands).
  sched::OperandAttr broadcastOperand(mlir::Value value, llvm::ArrayRef<shape::SymInt> batch);
  /// A constant weight packed as [taps..., k, n]; `sizes` are the logical ones of the MME operand.
  sched::OperandAttr packedOperand(const ir::StridedView& weights, llvm::ArrayRef<int64_t> viewSizes,
                                   llvm::ArrayRef<int64_t> viewStrides, llvm::ArrayRef<int64_t> sizes);
  /// Room in the section of `weights` for another form of them, which the device makes at load (zeros between taps).
  void reserveConstants(sched::OperandAttr weights, int64_t bytes);
  /// An SRAM ring tile of `type`, cut along the ring's dim to `tileSize`.
  sched::OperandAttr ringOperand(const memory::RingInfo& ring, mlir::RankedTensorType type, int64_t tileSize);

  /// Adds a kernel made of `part`; operands in the order of part.inputs / part.outputs.
  mlir::FlatSymbolRefAttr kernel(const KernelPart& part, llvm::ArrayRef<mlir::Attribute> inputs,
                                 llvm::ArrayRef<mlir::Attribute> outputs, llvm::StringRef name);

  /// A fresh symbol for a descriptor.
  std::string symbol(llvm::StringRef stem) { return stem.str() + std::to_string(counter_++); }
  mlir::OpBuilder& builder() { return builder_; }
  memory::Sections sections() const { return sections_; }
  bool isLate() const { return isLate_; }
  /// OperandAttr's `late` of the part of `whole` that `part` is copied to, `offset` bytes from its start; null where
  /// sizes are known.
  mlir::DictionaryAttr partOf(mlir::Value whole, mlir::Value part, const shape::SymInt& offset);
  /// Emits the section ops ahead of everything; call at the end.
  void finish(int64_t workspaceBytes, int64_t sramBytes);

 private:
  int64_t placeConstant(mlir::ElementsAttr value, int64_t start, llvm::ArrayRef<int64_t> sizes,
                        llvm::ArrayRef<int64_t> strides, bool packed);
  sched::OperandAttr make(unsigned section, int64_t offset, mlir::Type element, llvm::ArrayRef<int64_t> sizes,
                          llvm::ArrayRef<int64_t> strides, llvm::ArrayRef<int64_t> ring = {},
                          mlir::DictionaryAttr late = {});
  /// Which chained unit's result an operand is (a view of): {number, dim, slots}.
  mlir::DictionaryAttr chainNumber(mlir::Operation* unit, const memory::RingInfo& tiles);
  /// OperandAttr's `late`.
  mlir::DictionaryAttr late(int64_t storage, const shape::SymInt& offset, llvm::ArrayRef<shape::SymInt> sizes,
                            llvm::ArrayRef<shape::SymInt> strides);

  mlir::func::FuncOp function_;
  mlir::OpBuilder& builder_;
  sched::ProgramOp program_;
  memory::Sections sections_;
  bool isLate_;  ///< Sizes are given late: operands say how they follow from them.
  int64_t constantBytes_ = 0;
  int counter_ = 0;
  llvm::DenseMap<mlir::Attribute, int64_t> placed_;
  llvm::DenseMap<mlir::Operation*, size_t> chains_;  ///< By chained unit: its number.
  std::set<std::pair<int64_t, int64_t>> reserved_;   ///< Offset and bytes.
};

}  // namespace hpu::schedule
