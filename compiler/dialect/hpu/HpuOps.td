// SPDX-License-Identifier: Apache-2.0
// All ops of the hpu dialect; here: constants and the units that fusion makes.

#ifndef HPU_OPS_TD
#define HPU_OPS_TD

include "HpuElementwise.td"
include "HpuFlow.td"
include "HpuComposite.td"
include "HpuMme.td"
include "HpuMovement.td"
include "HpuNative.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Hpu_ConstantOp : Hpu_Op<"constant", [Pure, ConstantLike]> {
  let summary = "A tensor known at compile time; large ones are resources backed by mapped files";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "attr-dict $value `:` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def Hpu_YieldOp : Hpu_Op<"yield", [Pure, Terminator, ReturnLike]> {
  let summary = "Results of a unit, or of a kernel made of one";
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "operands attr-dict `:` type(operands)";
}

class Hpu_UnitOp<string mnemonic> : Hpu_Op<mnemonic, [Pure, IsolatedFromAbove, Hpu_OpInterface,
    SingleBlock]> {
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, OptionalAttr<Hpu_TileAttr>:$tile);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;  // It asks the ops inside, which are right only when they have been verified.
}

def Hpu_BundleOp : Hpu_UnitOp<"bundle"> {
  let summary = "One MME op and the TPC ops pipelined with it through SRAM";
  let description = [{
    The body holds one MME op and elementwise TPC ops over the same index space; block arguments stand for
    the operands. Values between the MME op and the TPC ops live in SRAM tiles.
  }];
  let extraClassDeclaration = "::hpu::ir::EngineKind getEngine() { return ::hpu::ir::EngineKind::Mme; }";
}
def Hpu_ClusterOp : Hpu_UnitOp<"cluster"> {
  let summary = "TPC ops that become one kernel";
  let description = [{
    All results have the same logical shape, the kernel's index space, except the result of a reduction.
  }];
}

#endif
