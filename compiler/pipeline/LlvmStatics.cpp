// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/ExitSafety.h"
#include "llvm/CodeGen/SelectionDAGNodes.h"
#include "llvm/IR/OptBisect.h"
#include "llvm/IR/PrintPasses.h"
#include "mlir/IR/BuiltinAttributeInterfaces.h"

namespace hpu::pipeline {

namespace {

/// The code generator's lists of types are for derived classes.
struct TypeLists : llvm::SDNode {
  static void make() { (void)getSDVTList(llvm::MVT::Other); }
};

}  // namespace

bool makeLlvmStatics() {
  // An interface has its ID when it is asked for, as traits do: so the table of such IDs is there.
  (void)mlir::TypeID::get<mlir::ElementsAttr>();
  (void)llvm::getGlobalPassGate();
  (void)llvm::isPassInPrintList("");
  (void)llvm::isFunctionInPrintList("");
  TypeLists::make();
  return true;
}

}  // namespace hpu::pipeline
