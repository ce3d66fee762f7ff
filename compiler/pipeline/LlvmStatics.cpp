// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/ExitSafety.h"
#include "llvm/CodeGen/SelectionDAGNodes.h"
#include "llvm/IR/OptBisect.h"
#include "llvm/IR/PrintPasses.h"
#include "mlir/Support/TypeID.h"

namespace hpu::pipeline {

/// A type that MLIR gives an ID when it is asked for, as it does its traits; not one of an anonymous namespace.
struct MadeFirst {};

namespace {

/// The code generator's lists of types are for derived classes.
struct TypeLists : llvm::SDNode {
  static void make() { (void)getSDVTList(llvm::MVT::Other); }
};

}  // namespace

bool makeLlvmStatics() {
  (void)mlir::TypeID::get<MadeFirst>();
  (void)llvm::getGlobalPassGate();
  (void)llvm::isPassInPrintList("");
  (void)llvm::isFunctionInPrintList("");
  TypeLists::make();
  return true;
}

}  // namespace hpu::pipeline
