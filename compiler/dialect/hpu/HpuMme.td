// SPDX-License-Identifier: Apache-2.0
// What the matrix engine runs. It has no C input: bias and residuals are separate adds behind it.

#ifndef HPU_MME_TD
#define HPU_MME_TD

include "HpuOpBase.td"

defvar onMmeIfItHasTheType = "::hpu::ir::EngineKind getEngine();";

def Hpu_MatMulOp : Hpu_TensorOp<"matmul", !strconcat(onMmeIfItHasTheType, exactIfAsked)> {
  let summary = "[..., M, K] x [..., K, N], leading dims broadcast; rank >= 2 each";
  let description = [{
    Products of integers, which wrap around, and of f64 are a TPC kernel; all others run on the MME. `exact`: the product
    of integers that stand in floats; no pass may change its type or scale its operands.
  }];
  let arguments = (ins AnyRankedTensor:$lhs, AnyRankedTensor:$rhs, DefaultValuedAttr<BoolAttr, "false">:$exact);
}

def Hpu_Conv2dOp : Hpu_TensorOp<"conv2d", !strconcat(onMmeIfItHasTheType, exactIfAsked)> {
  let summary = "2-D convolution: x [N, C, H, W], w [OC, C/groups, KH, KW]; pads are top, left, bottom, right";
  let description = [{
    A depthwise convolution (groups = C = OC) is a TPC kernel, and so is one of integers or f64; every other one runs on
    the MME. `exact` as in matmul.
  }];
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$w, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pads, I64Attr:$groups,
                       DefaultValuedAttr<BoolAttr, "false">:$exact);
  let hasVerifier = 1;
}

def Hpu_ConvTranspose2dOp : Hpu_TensorOp<"conv_transpose2d", onMme> {
  let summary = "Transposed 2-D convolution: x [N, C, H, W], w [C, OC/groups, KH, KW]";
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$w, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$output_padding,
                       I64Attr:$groups);
  let hasVerifier = 1;
}

#endif
