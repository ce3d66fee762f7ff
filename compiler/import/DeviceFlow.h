// SPDX-License-Identifier: Apache-2.0
// Bodies of hpu.loop and hpu.if while a model is imported.
// The one thing to know: a body is made in a block by itself that reads values around it as if it were among them; what
// it reads of these becomes operands when it is closed, but for what follows from constants, which is made again
// inside.
//
//   FlowBody body(builder);                             // Ops are made inside from here on ...
//   Value x = body.addArgument(type);
//   ... body.yield({next});
//   body.leave();                                       // ... and to here.
//   SmallVector<Value> results = makeLoop(builder, location, spec, body);
#pragma once

#include <memory>

#include "compiler/dialect/hpu/HpuOps.h"
#include "mlir/IR/Builders.h"

namespace hpu::importer {

class FlowBody {
 public:
  explicit FlowBody(mlir::OpBuilder& builder);
  /// A body that no op has taken is gone, with all that is in it. Constants that were made in it stay.
  ~FlowBody();
  FlowBody(const FlowBody&) = delete;
  FlowBody& operator=(const FlowBody&) = delete;

  mlir::Value addArgument(mlir::Type type) { return block_->addArgument(type, location_); }
  mlir::Block& block() { return *block_; }
  /// Ends it.
  void yield(mlir::ValueRange values);
  /// The builder is again where it was, and constants are in front of that place, where others may read them.
  void leave();
  /// The values around it that it reads, as arguments behind those that it has. After leave().
  llvm::SmallVector<mlir::Value> capture();
  /// The arguments of both bodies of a branch are the same.
  static llvm::SmallVector<mlir::Value> captureBoth(FlowBody& a, FlowBody& b);
  /// Into a region of the op.
  void moveInto(mlir::Region& region) { region.push_back(block_.release()); }

  /// It has only tensors of known sizes in it, and around it reads no others.
  bool isStatic() const { return firstOfFreeSize() == nullptr; }
  /// An op that has another one, or reads one; null: none does.
  mlir::Operation* firstOfFreeSize() const;
  /// Without constants.
  int64_t numOps() const;
  /// It has a product, or a loop or branch of its own.
  bool isHeavy() const;

 private:
  void makeConstantsInside();

  mlir::OpBuilder& builder_;
  mlir::OpBuilder::InsertPoint outside_;
  mlir::Location location_;
  std::unique_ptr<mlir::Block> block_;
  bool isInside_ = true;
};

/// The value is made of constants alone.
bool isConstantExpression(mlir::Value value);

/// What a loop is given, beside its body, whose arguments are the carried values and the slices.
struct LoopSpec {
  int64_t trips = 1;
  mlir::Value count, condition;  ///< May be null.
  llvm::SmallVector<mlir::Value> carried, scanned;
  llvm::SmallVector<bool> scannedBackwards, collectedBackwards;
};
/// The values of a loop's results: of the carried ones, then of the collected ones.
llvm::SmallVector<mlir::Value> makeLoop(mlir::OpBuilder& builder, mlir::Location location, LoopSpec spec,
                                        FlowBody& body);
llvm::SmallVector<mlir::Value> makeIf(mlir::OpBuilder& builder, mlir::Location location, mlir::Value condition,
                                      FlowBody& then, FlowBody& otherwise);

/// How many iterations run of a loop whose condition follows from constants and the number of the iteration alone;
/// nullopt: it does not, or they are more than can be gone through. The condition of the first iteration holds, and the
/// body yields the next one first; argument `iteration` is the number of the iteration (of no carried value: carried[i]
/// is argument i).
std::optional<int64_t> knownTrips(FlowBody& body, mlir::ArrayRef<mlir::Value> carried, mlir::Value iteration,
                                  int64_t most);

}  // namespace hpu::importer
