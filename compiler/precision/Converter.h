// SPDX-License-Identifier: Apache-2.0
// Converter: rewrites a function op by op: each op says which element type it wants its f32 operands in,
// and a value is cast once for each type that is asked of it.
#pragma once

#include "compiler/precision/Fp8.h"
#include "compiler/precision/KeepList.h"
#include "compiler/precision/Precision.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

namespace hpu::precision {

class Converter {
 public:
  Converter(mlir::func::FuncOp func, const PrecisionOptions& options);
  mlir::LogicalResult run();
  std::string summary() const;
  std::string report() const { return report_; }

 private:
  using Value = mlir::Value;
  using Type = mlir::Type;
  using Operation = mlir::Operation;

  /// A tensor in 8 bits: its codes, and the scale as a number or (a rank-0 f32 value) computed at run time.
  struct Quantised {
    Value codes;
    double scale = 1;
    Value dynamicScale;
  };

  void findLastOps(mlir::Block& block);
  /// Null when the op becomes narrow.
  const char* reasonToKeep(Operation* op);
  mlir::LogicalResult convert(Operation* op);
  mlir::LogicalResult convertCast(ir::CastOp op);
  Value as(Value value, Type element);
  mlir::Location argumentLoc(mlir::BlockArgument argument);
  Value narrowedConstant(Value value);
  void line(Operation* op, llvm::StringRef type, llvm::StringRef text);
  mlir::LogicalResult missingData(Operation* op);

  // ---- ConvertFp8.cpp ----
  mlir::LogicalResult convertToFp8(Operation* op);
  /// Operand `index` of the product in 8 bits.
  mlir::FailureOr<Quantised> quantise(Operation* op, int index, std::string& text);
  mlir::FailureOr<Quantised> quantiseConstant(Operation* op, Value value, std::string& text);
  Quantised quantiseDynamically(Operation* op, Value root);
  Value codesOf(Operation* op, Value root, Value factor);
  Value viewsOf(Value value, Value root, Value codes);
  Value scalar(mlir::Location loc, Type element, double number);
  Value rescaled(Operation* op, Value product, const Quantised& a, const Quantised& b);

  mlir::func::FuncOp func_;
  mlir::OpBuilder builder_;
  const PrecisionOptions& options_;
  KeepList keep_;
  mlir::FloatType narrowType_;
  Fp8Format fp8_;
  llvm::DenseMap<Operation*, std::string> productNames_;
  llvm::DenseSet<Operation*> last_, computedWide_;
  llvm::DenseSet<Value> kept_;                               ///< f32 on purpose.
  llvm::DenseSet<Value> original_;                           ///< Narrow now, f32 in the model.
  llvm::DenseMap<Value, Value> other_;                       ///< The same value with the other element type.
  llvm::DenseMap<std::pair<void*, void*>, Value> views_;     ///< By view and codes of its root.
  std::map<std::pair<void*, double>, Quantised> quantised_;  ///< By root and scale; 0: dynamic.
  int64_t narrow_ = 0, wide_ = 0, eight_ = 0, constantBytes_ = 0;
  std::string report_;
  bool failed_ = false;
};

}  // namespace hpu::precision
