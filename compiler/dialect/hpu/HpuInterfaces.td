// SPDX-License-Identifier: Apache-2.0
// What passes ask an op, instead of testing for its kind.

#ifndef HPU_INTERFACES_TD
#define HPU_INTERFACES_TD

include "mlir/IR/OpBase.td"

def Hpu_OpInterface : OpInterface<"HpuOp"> {
  let cppNamespace = "::hpu::ir";
  let description = "Facts about an op that the phases work with.";
  let methods = [
    InterfaceMethod<"The engine that runs the op.", "::hpu::ir::EngineKind", "getEngine", (ins), "",
                    "return ::hpu::ir::EngineKind::Tpc;">,
    InterfaceMethod<"Every result element depends only on the operand elements at its own (broadcast) index.",
                    "bool", "isElementwise", (ins), "", "return false;">,
    InterfaceMethod<"The result is the operand's memory seen through other sizes and strides, if they allow it.",
                    "bool", "isView", (ins), "", "return false;">,
    InterfaceMethod<"Result dimensions that must be whole in a slice: bit d for dimension d.",
                    "uint32_t", "getWholeDims", (ins), "", "return 0;">,
    InterfaceMethod<"What its numbers ask of the types that they are stored in when a model is made narrow.",
                    "::hpu::ir::Narrowing", "getNarrowing", (ins), "", "return ::hpu::ir::Narrowing::Any;">
  ];
}

#endif
