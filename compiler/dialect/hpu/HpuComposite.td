// SPDX-License-Identifier: Apache-2.0
// Reductions, normalisations, pooling, resampling: TPC kernels that look at more than one element.

#ifndef HPU_COMPOSITE_TD
#define HPU_COMPOSITE_TD

include "HpuOpBase.td"

class Hpu_AxisOp<string mnemonic, string text, string narrowing>
    : Hpu_TensorOp<mnemonic, !strconcat("uint32_t getWholeDims() { return 1u << getAxis(); }", narrowing)> {
  let summary = text;
  let arguments = (ins AnyRankedTensor:$x, I64Attr:$axis);
  let hasVerifier = 1;
}
def Hpu_SoftmaxOp : Hpu_AxisOp<"softmax", "exp(x - max) / sum(exp(x - max)) along axis", bounded>;
def Hpu_LogSoftmaxOp : Hpu_AxisOp<"log_softmax", "Logarithm of softmax along axis", meaning>;

def Hpu_LayerNormOp : Hpu_TensorOp<"layer_norm", !strconcat("uint32_t getWholeDims();", bounded)> {
  let summary = "(x - mean) / sqrt(variance + epsilon) * scale + bias over the dims from axis to the last; "
                "not centred: x / sqrt(mean of squares + epsilon) * scale + bias";
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$scale, Optional<AnyRankedTensor>:$bias,
                       I64Attr:$axis, F64Attr:$epsilon, DefaultValuedAttr<BoolAttr, "true">:$centred);
  let hasVerifier = 1;
}
def Hpu_BatchNormOp : Hpu_TensorOp<"batch_norm", !strconcat(elementwise, meaning)> {
  let summary = "Inference batch normalisation of dim 1 with given mean and variance";
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$scale, AnyRankedTensor:$bias,
                       AnyRankedTensor:$mean, AnyRankedTensor:$variance, F64Attr:$epsilon);
  let hasVerifier = 1;
}
def Hpu_InstanceNormOp : Hpu_TensorOp<"instance_norm", !strconcat("uint32_t getWholeDims();", bounded)> {
  let summary = "Normalises each channel (dim 1) of each batch element over the spatial dims";
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$scale, AnyRankedTensor:$bias, F64Attr:$epsilon);
}

class Hpu_ReduceOp<string mnemonic, string text, string narrowing = "", dag more = (ins)> : Hpu_TensorOp<mnemonic, narrowing> {
  let summary = text;
  let arguments = !con((ins AnyRankedTensor:$x, DenseI64ArrayAttr:$axes, DefaultValuedAttr<BoolAttr, "true">:$keepdims), more);
  let hasVerifier = 1;
}
/// Summed up in f32 whatever x is; `to` is the float type that is stored, x's if it is not given.
class Hpu_SumOp<string mnemonic, string text> : Hpu_ReduceOp<mnemonic, text, sumOfMany, (ins OptionalAttr<TypeAttr>:$to)>;
def Hpu_ReduceSumOp : Hpu_SumOp<"reduce_sum", "Sum over axes">;
def Hpu_ReduceMeanOp : Hpu_SumOp<"reduce_mean", "Arithmetic mean over axes">;
def Hpu_ReduceMaxOp : Hpu_ReduceOp<"reduce_max", "Maximum over axes">;
def Hpu_ReduceMinOp : Hpu_ReduceOp<"reduce_min", "Minimum over axes">;
def Hpu_ReduceProdOp : Hpu_SumOp<"reduce_prod", "Product over axes">;
def Hpu_ArgMaxOp : Hpu_TensorOp<"arg_max"> {
  let summary = "Index (i64) of the first largest element along axis";
  let arguments = (ins AnyRankedTensor:$x, I64Attr:$axis, DefaultValuedAttr<BoolAttr, "true">:$keepdims);
}

class Hpu_Pool2dOp<string mnemonic, string text, dag more> : Hpu_TensorOp<mnemonic> {
  let summary = text;
  let description = "x is [N, C, H, W]; pads are top, left, bottom, right.";
  let arguments = !con((ins AnyRankedTensor:$x, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                            DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pads,
                            DefaultValuedAttr<BoolAttr, "false">:$ceil_mode), more);
  let hasVerifier = 1;
}
def Hpu_MaxPool2dOp : Hpu_Pool2dOp<"max_pool2d", "Maximum over windows; padding never wins", (ins)>;
def Hpu_AvgPool2dOp : Hpu_Pool2dOp<"avg_pool2d", "Mean over windows", (ins DefaultValuedAttr<BoolAttr, "false">:$count_include_pad)>;

def Hpu_ResizeOp : Hpu_TensorOp<"resize"> {
  let summary = "Resamples the last two dims of [N, C, H, W] to `sizes`";
  let description = [{
    Coordinates are computed in f32, and `scales` are rounded to f32 first (ResizeCoordinates.h). A size that is the
    dynamic marker follows from the operand's and the scale. A scale of 0 is what the size asks for, the quotient of
    both sizes in f32; the size may then be named by `symbols`, as that of hpu.slice.
  }];
  let arguments = (ins AnyRankedTensor:$x, DenseI64ArrayAttr:$sizes, DenseF64ArrayAttr:$scales, Hpu_ResizeModeAttr:$mode,
                       Hpu_RoundCoordAttr:$coordinates,
                       DefaultValuedAttr<Hpu_NearestModeAttr, "::hpu::ir::NearestMode::round_prefer_floor">:$nearest,
                       OptionalAttr<ArrayAttr>:$symbols);
  let hasVerifier = 1;
}

#endif
