// SPDX-License-Identifier: Apache-2.0
// Ops of arith and math, as ops on tensors: they stand by themselves, and in the bodies of linalg's ops.
#include <cmath>

#include "base/Format.h"
#include "compiler/mlir_import/MlirNode.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace hpu::importer {
namespace {

using base::strCat;
using Operands = llvm::ArrayRef<Value>;
using ScalarConverter = Value (*)(MlirNode&, mlir::Operation&, Operands, llvm::StringRef);

mlir::Type resultOf(mlir::Operation& op) {
  mlir::Type type = mlir::getElementTypeOrSelf(op.getResult(0).getType());
  return type.isIndex() ? mlir::IntegerType::get(op.getContext(), 64) : type;
}

Value plain(MlirNode& n, mlir::Operation&, Operands in, llvm::StringRef mnemonic) {
  return n.op(mnemonic, in);
}

/// With operands that are read as numbers without a sign.
Value onUnsigned(MlirNode& n, mlir::Operation&, Operands in, llvm::StringRef mnemonic) {
  const mlir::Type element = n.elementOf(in[0]), bits = n.unsignedOf(element);
  return n.bitcast(n.op(mnemonic, {n.bitcast(in[0], bits), n.bitcast(in[1], bits)}), element);
}

/// and, or, xor: of i1 they are logical ones.
Value onBits(MlirNode& n, mlir::Operation&, Operands in, llvm::StringRef mnemonic) {
  return n.op(n.elementOf(in[0]).isInteger(1) ? mnemonic.str() : "bit_" + mnemonic.str(), in);
}

/// Remainder with the sign of the dividend.
Value remainder(MlirNode& n, mlir::Operation&, Operands in, llvm::StringRef) {
  return n.op("sub", {in[0], n.op("mul", {n.op("div", in), in[1]})});
}

/// maxnum, minnum: the other one where one is NaN.
Value numberOf(MlirNode& n, mlir::Operation&, Operands in, llvm::StringRef mnemonic) {
  Value y = n.op("where", {n.op("is_nan", in[0]), in[1], n.op(mnemonic, in)});
  return n.op("where", {n.op("is_nan", in[1]), in[0], y});
}

Value select(MlirNode& n, mlir::Operation&, Operands in, llvm::StringRef) {
  return n.op("where", in);
}

Value compareFloats(MlirNode& n, mlir::Operation& op, Operands in, llvm::StringRef) {
  using P = mlir::arith::CmpFPredicate;
  const auto predicate = mlir::cast<mlir::arith::CmpFOp>(op).getPredicate();
  auto unordered = [&] { return n.op("or", {n.op("is_nan", in[0]), n.op("is_nan", in[1])}); };
  switch (predicate) {
    case P::OEQ:
      return n.op("equal", in);
    case P::OGT:
      return n.op("greater", in);
    case P::OGE:
      return n.op("greater_equal", in);
    case P::OLT:
      return n.op("less", in);
    case P::OLE:
      return n.op("less_equal", in);
    case P::ONE:
      return n.op("or", {n.op("less", in), n.op("greater", in)});
    case P::ORD:
      return n.notOf(unordered());
    case P::UNO:
      return unordered();
    case P::UEQ:
      return n.op("or", {n.op("equal", in), unordered()});
    case P::UGT:
      return n.notOf(n.op("less_equal", in));
    case P::UGE:
      return n.notOf(n.op("less", in));
    case P::ULT:
      return n.notOf(n.op("greater_equal", in));
    case P::ULE:
      return n.notOf(n.op("greater", in));
    case P::UNE:
      return n.notOf(n.op("equal", in));
    default:
      n.unsupported("a comparison that is always true or false");
      return {};
  }
}

Value compareIntegers(MlirNode& n, mlir::Operation& op, Operands in, llvm::StringRef) {
  using P = mlir::arith::CmpIPredicate;
  const auto predicate = mlir::cast<mlir::arith::CmpIOp>(op).getPredicate();
  Value a = in[0], b = in[1];
  if (n.elementOf(a).isInteger(1)) a = n.cast(a, n.i32()), b = n.cast(b, n.i32());
  if (predicate >= P::ult) {
    const mlir::Type bits = n.unsignedOf(n.elementOf(a));
    a = n.bitcast(a, bits), b = n.bitcast(b, bits);
  } else if (n.elementOf(in[0]).isInteger(1) && predicate != P::eq && predicate != P::ne) {
    std::swap(a, b);  // True is the signed -1.
  }
  switch (predicate) {
    case P::eq:
      return n.op("equal", {a, b});
    case P::ne:
      return n.notOf(n.op("equal", {a, b}));
    case P::slt:
    case P::ult:
      return n.op("less", {a, b});
    case P::sle:
    case P::ule:
      return n.op("less_equal", {a, b});
    case P::sgt:
    case P::ugt:
      return n.op("greater", {a, b});
    case P::sge:
    case P::uge:
      return n.op("greater_equal", {a, b});
  }
  return {};
}

Value convert(MlirNode& n, mlir::Operation& op, Operands in, llvm::StringRef) {
  const mlir::Type to = resultOf(op);
  if (to.isInteger(1) && !n.isFloat(in[0])) {
    Value lowest = n.op("bit_and", {in[0], n.scalarLike(in[0], 1)});
    return n.notOf(n.op("equal", {lowest, n.scalarLike(in[0], 0)}));
  }
  // i1 counts as -1 where it has a sign.
  if (n.elementOf(in[0]).isInteger(1) && op.getName().stripDialect() != "extui" &&
      op.getName().stripDialect() != "uitofp") {
    Value one = n.cast(in[0], to);
    return one ? n.op("neg", one) : one;
  }
  return n.cast(in[0], to);
}

Value convertUnsigned(MlirNode& n, mlir::Operation& op, Operands in, llvm::StringRef mnemonic) {
  if (n.elementOf(in[0]).isInteger(1)) return n.cast(in[0], resultOf(op));
  if (mnemonic == "to") {
    const mlir::Type to = resultOf(op);
    return n.bitcast(n.cast(in[0], n.unsignedOf(to)), to);
  }
  const mlir::Type to = resultOf(op);
  Value read = n.bitcast(in[0], n.unsignedOf(n.elementOf(in[0])));
  return n.isFloat(to) ? n.cast(read, to) : n.bitcast(n.cast(read, n.unsignedOf(to)), to);
}

Value sameBits(MlirNode& n, mlir::Operation& op, Operands in, llvm::StringRef) {
  return n.bitcast(in[0], resultOf(op));
}

Value fma(MlirNode& n, mlir::Operation&, Operands in, llvm::StringRef) {
  return n.op("add", {n.op("mul", {in[0], in[1]}), in[2]});
}

Value scaledExp(MlirNode& n, mlir::Operation&, Operands in, llvm::StringRef) {
  return n.op("pow", {n.scalarLike(in[0], 2), in[0]});
}

Value log2(MlirNode& n, mlir::Operation&, Operands in, llvm::StringRef) {
  return n.op("mul", {n.op("log", in), n.scalarLike(in[0], 1 / std::log(2.0))});
}

Value log10(MlirNode& n, mlir::Operation&, Operands in, llvm::StringRef) {
  return n.op("mul", {n.op("log", in), n.scalarLike(in[0], 1 / std::log(10.0))});
}

Value tangent(MlirNode& n, mlir::Operation&, Operands in, llvm::StringRef) {
  return n.op("div", {n.op("sin", in), n.op("cos", in)});
}

/// To nearest, halves away from zero.
Value roundAway(MlirNode& n, mlir::Operation&, Operands in, llvm::StringRef) {
  Value size = n.op("abs", in), down = n.op("floor", size);
  Value isUp = n.op("greater_equal", {n.op("sub", {size, down}), n.scalarLike(size, 0.5)});
  Value rounded = n.op("add", {down, n.cast(isUp, n.elementOf(in[0]))});
  return n.op("mul", {n.op("sign", in), rounded});
}

Value truncate(MlirNode& n, mlir::Operation&, Operands in, llvm::StringRef) {
  return n.op("mul", {n.op("sign", in), n.op("floor", n.op("abs", in))});
}

Value cube(MlirNode& n, mlir::Operation&, Operands in, llvm::StringRef) {
  // Powers of negative numbers: by their size.
  Value root = n.op("pow", {n.op("abs", in), n.scalarLike(in[0], 1.0 / 3.0)});
  return n.op("mul", {n.op("sign", in), root});
}

/// Arithmetic of i1, a number of one bit: sums wrap around, true is the signed -1. What divides by zero, overflows or
/// shifts by the width has no result in arith; here it is whatever the shortest formula gives.
Value onOneBit(MlirNode& n, mlir::Operation& op, Operands in) {
  static constexpr std::pair<const char*, const char*> kAs[] = {
      {"arith.addi", "xor"},  {"arith.subi", "xor"},  {"arith.muli", "and"},
      {"arith.maxsi", "and"}, {"arith.minsi", "or"},  {"arith.maxui", "or"},
      {"arith.minui", "and"}, {"arith.divsi", "and"}, {"arith.divui", "and"},
  };
  const llvm::StringRef name = op.getName().getStringRef();
  for (const auto& [own, logical] : kAs)
    if (name == own) return n.op(logical, in);
  if (name == "arith.remsi" || name == "arith.remui") return n.op("xor", {in[0], in[0]});
  if (name == "arith.shli" || name == "arith.shrui" || name == "arith.shrsi" || name == "math.absi") return in[0];
  n.unsupported(strCat("'", name.str(), "' of i1"));
  return {};
}

struct ScalarRow {
  const char* op;
  ScalarConverter convert;
  const char* mnemonic = "";
};

constexpr ScalarRow kRows[] = {
    {"arith.addf", plain, "add"},
    {"arith.addi", plain, "add"},
    {"arith.andi", onBits, "and"},
    {"arith.bitcast", sameBits},
    {"arith.cmpf", compareFloats},
    {"arith.cmpi", compareIntegers},
    {"arith.divf", plain, "div"},
    {"arith.divsi", plain, "div"},
    {"arith.divui", onUnsigned, "div"},
    {"arith.extf", convert},
    {"arith.extsi", convert},
    {"arith.extui", convertUnsigned},
    {"arith.fptosi", convert},
    {"arith.fptoui", convertUnsigned, "to"},
    {"arith.index_cast", convert},
    {"arith.maximumf", plain, "max"},
    {"arith.maxnumf", numberOf, "max"},
    {"arith.maxsi", plain, "max"},
    {"arith.maxui", onUnsigned, "max"},
    {"arith.minimumf", plain, "min"},
    {"arith.minnumf", numberOf, "min"},
    {"arith.minsi", plain, "min"},
    {"arith.minui", onUnsigned, "min"},
    {"arith.mulf", plain, "mul"},
    {"arith.muli", plain, "mul"},
    {"arith.negf", plain, "neg"},
    {"arith.ori", onBits, "or"},
    {"arith.remf", plain, "mod"},
    {"arith.remsi", remainder},
    {"arith.remui", onUnsigned, "mod"},
    {"arith.select", select},
    {"arith.shli", plain, "shift_left"},
    {"arith.shrsi", plain, "shift_right"},
    {"arith.shrui", onUnsigned, "shift_right"},
    {"arith.sitofp", convert},
    {"arith.subf", plain, "sub"},
    {"arith.subi", plain, "sub"},
    {"arith.truncf", convert},
    {"arith.trunci", convert},
    {"arith.uitofp", convertUnsigned},
    {"arith.xori", onBits, "xor"},
    {"math.absf", plain, "abs"},
    {"math.absi", plain, "abs"},
    {"math.atan", plain, "atan"},
    {"math.cbrt", cube},
    {"math.ceil", plain, "ceil"},
    {"math.cos", plain, "cos"},
    {"math.erf", plain, "erf"},
    {"math.exp", plain, "exp"},
    {"math.exp2", scaledExp},
    {"math.expm1", plain, "expm1"},
    {"math.floor", plain, "floor"},
    {"math.fma", fma},
    {"math.log", plain, "log"},
    {"math.log10", log10},
    {"math.log1p", plain, "log1p"},
    {"math.log2", log2},
    {"math.powf", plain, "pow"},
    {"math.round", roundAway},
    {"math.roundeven", plain, "round"},
    {"math.rsqrt", plain, "rsqrt"},
    {"math.sin", plain, "sin"},
    {"math.sqrt", plain, "sqrt"},
    {"math.tan", tangent},
    {"math.tanh", plain, "tanh"},
    {"math.trunc", truncate},
};

const ScalarRow* findRow(mlir::Operation& op) {
  for (const ScalarRow& row : kRows)
    if (op.getName().getStringRef() == row.op) return &row;
  return nullptr;
}

}  // namespace

bool isScalarOp(mlir::Operation& op) {
  return findRow(op) != nullptr;
}

Value convertScalarOp(MlirNode& node, mlir::Operation& op, llvm::ArrayRef<Value> operands) {
  const ScalarRow* row = findRow(op);
  if (!row) {
    node.unsupported(strCat("'", op.getName().getStringRef().str(), "' in its body"));
    return {};
  }
  for (Value operand : operands)
    if (!operand) return {};
  if (node.failed()) return {};
  const bool isArithmetic = row->convert == plain || row->convert == onUnsigned || row->convert == remainder;
  if (isArithmetic && node.elementOf(operands[0]).isInteger(1)) return onOneBit(node, op, operands);
  return row->convert(node, op, operands, row->mnemonic);
}

}  // namespace hpu::importer
