// SPDX-License-Identifier: Apache-2.0
// Ops whose kernel comes as object code.

#ifndef HPU_NATIVE_TD
#define HPU_NATIVE_TD

include "HpuOpBase.td"

def Hpu_NativeOp : Hpu_TensorOp<"native", "uint32_t getWholeDims();" # Hpu_Narrowing<"Exact">.text> {
  let summary = "A kernel in object code, over the index space of its result";
  let description = [{
    `object` is a relocatable x86-64 file whose function `entry` computes a box of the result (include/hpu/kernel.h);
    `object_v4`, where it is given, is for CPUs of x86-64-v4. Nothing looks into the code: what it reads, costs and needs
    is what the attributes say.
    - sizes: those of the result, by the sizes of all operands, one after the other.
    - element: the result's.
    - reads: by operand and dimension the dim of the index space whose positions alone it reads there, or -1: all.
    - whole: dims of the index space, those that every call gets whole.
    - cost: vector loads, stores, vector and scalar instructions of a point, as recipe::TpcCost has them.
    - scratch_bytes: the local memory of a call.
    - params: numbers that the code finds behind the sizes and strides of its operands.
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, StrAttr:$name, StrAttr:$entry, StrAttr:$object,
                       OptionalAttr<StrAttr>:$object_v4, AffineMapAttr:$sizes, TypeAttr:$element,
                       DenseI64ArrayAttr:$reads, DenseI64ArrayAttr:$whole, DenseF64ArrayAttr:$cost,
                       I64Attr:$scratch_bytes, DenseI64ArrayAttr:$params);
  let hasVerifier = 1;
}

#endif
