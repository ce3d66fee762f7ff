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

/// Why a value keeps f32, the weaker reasons first: what joins it with narrow tensors depends on it.
enum class Wide : uint8_t {
  kNo,
  kMeaning,  ///< Made from integers, or kept by its op: read narrow where something narrow joins it.
  kRange,    ///< A statistic, a power, something near a small constant: what joins it computes in f32.
  kBeyond    ///< With numbers beyond the narrow type's range in it (a mask): so is what is made of it.
};

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
  /// How an op computes.
  struct Choice {
    const char* reason = nullptr;  ///< Why in f32; null: in the narrow type.
    Wide result = Wide::kNo;       ///< How its result is kept; kNo: it is stored narrow.
  };

  void findLastOps(mlir::Block& block);
  void findLeads(mlir::Block& block);
  Choice choose(Operation* op);
  Choice chooseByOperands(Operation* op);
  Wide constantsBeyond(Operation* op);
  mlir::LogicalResult convert(Operation* op);
  void setOperands(Operation* op, Type element);
  void storeNarrow(Operation* op, Value result);
  mlir::LogicalResult convertCast(ir::CastOp op);
  mlir::LogicalResult checkRoundings(mlir::Block& block, const llvm::DenseSet<Operation*>& ofModel);
  Value as(Value value, Type element);
  Value widenedFor(Operation* op, Value value);
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
  bool smallRange_ = false;  ///< The narrow type has fewer bits of exponent than f32.
  Fp8Format fp8_;
  llvm::DenseMap<Operation*, std::string> productNames_;
  llvm::DenseSet<Operation*> last_, computedWide_;
  llvm::DenseMap<Operation*, const char*> leads_;  ///< What only leads to a softmax or to integers, and to which.
  llvm::DenseMap<Value, Wide> kept_;               ///< f32 on purpose.
  llvm::DenseSet<Value> original_;                 ///< Narrow now, f32 in the model.
  llvm::DenseMap<Value, Value> other_;             ///< The same value with the other element type.
  llvm::DenseMap<std::pair<void*, void*>, Value> views_;     ///< By view and codes of its root.
  std::map<std::pair<void*, double>, Quantised> quantised_;  ///< By root and scale; 0: dynamic.
  int64_t narrow_ = 0, wide_ = 0, eight_ = 0, constantBytes_ = 0;
  std::string report_;
  bool failed_ = false;
};

}  // namespace hpu::precision
