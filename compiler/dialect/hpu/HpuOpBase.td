// SPDX-License-Identifier: Apache-2.0
// Classes that the op files share.

#ifndef HPU_OP_BASE_TD
#define HPU_OP_BASE_TD

include "HpuDialect.td"
include "HpuInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Hpu_Op<string mnemonic, list<Trait> traits = []> : Op<Hpu_Dialect, mnemonic, traits>;

// Layouts and names of free dimensions do not decide whether types agree.
class Hpu_Decl<string more = ""> {
  code text = [{
    static bool isCompatibleReturnTypes(::mlir::TypeRange a, ::mlir::TypeRange b) {
      return ::hpu::ir::compatibleTypes(a, b);
    }
  }] # more;
}

/// A pure op whose result type follows from its operands and attributes (its layout may differ).
/// `facts` overrides methods of HpuOp.
class Hpu_TensorOp<string mnemonic, string facts = "", list<Trait> traits = []>
    : Hpu_Op<mnemonic, !listconcat([Pure, InferTypeOpAdaptor, Hpu_OpInterface], traits)> {
  let extraClassDeclaration = Hpu_Decl<facts>.text;
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

defvar elementwise = "bool isElementwise() { return true; }";
defvar view = "bool isView() { return true; }";
defvar onMme = "::hpu::ir::EngineKind getEngine() { return ::hpu::ir::EngineKind::Mme; }";
/// Of HpuOp::getNarrowing.
class Hpu_Narrowing<string kind> {
  string text = "::hpu::ir::Narrowing getNarrowing() { return ::hpu::ir::Narrowing::" # kind # "; }";
}
defvar meaning = Hpu_Narrowing<"Meaning">.text;
defvar power = Hpu_Narrowing<"Power">.text;
defvar sumOfMany = Hpu_Narrowing<"Sum">.text;
defvar leavesRange = Hpu_Narrowing<"Range">.text;
defvar bounded = Hpu_Narrowing<"Bounded">.text;
defvar exactIfAsked = "::hpu::ir::Narrowing getNarrowing() { return getExact() ? ::hpu::ir::Narrowing::Exact : ::hpu::ir::Narrowing::Any; }";
defvar onDma = "::hpu::ir::EngineKind getEngine() { return ::hpu::ir::EngineKind::Dma; }";

#endif
