// SPDX-License-Identifier: Apache-2.0
// Ops that move or rename elements. Those that are views cost nothing when strides can express them.

#ifndef HPU_MOVEMENT_TD
#define HPU_MOVEMENT_TD

include "HpuOpBase.td"

def Hpu_ReshapeOp : Hpu_TensorOp<"reshape", view> {
  let summary = "The same elements in row-major order with another shape";
  let arguments = (ins AnyRankedTensor:$x, DenseI64ArrayAttr:$shape, OptionalAttr<ArrayAttr>:$symbols);
  let description = "`shape` holds every size, the dynamic marker for a free one that `symbols` then names.";
}
def Hpu_TransposeOp : Hpu_TensorOp<"transpose", view> {
  let summary = "result dim i is operand dim perm[i]";
  let arguments = (ins AnyRankedTensor:$x, DenseI64ArrayAttr:$perm);
  let hasVerifier = 1;
}
def Hpu_SliceOp : Hpu_TensorOp<"slice", "bool isView();"> {
  let summary = "Elements starts[d] + i * steps[d], for i < sizes[d], of every dim d";
  let description = [{
    A view when all steps are positive. Starts and sizes may be the dynamic marker; `start_symbols` and `symbols` then
    say what they are. A size without that is the operand's, where the start is 0 and the step 1.
  }];
  let arguments = (ins AnyRankedTensor:$x, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$sizes, DenseI64ArrayAttr:$steps,
                       OptionalAttr<ArrayAttr>:$start_symbols, OptionalAttr<ArrayAttr>:$symbols);
  let hasVerifier = 1;
}
def Hpu_ExpandOp : Hpu_TensorOp<"expand", view> {
  let summary = "Broadcasts to `shape`, as NumPy's broadcast_to";
  let arguments = (ins AnyRankedTensor:$x, DenseI64ArrayAttr:$shape, OptionalAttr<ArrayAttr>:$symbols);
}
def Hpu_ConcatOp : Hpu_TensorOp<"concat", onDma> {
  let summary = "Joins tensors along axis";
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, I64Attr:$axis);
  let hasVerifier = 1;
}
def Hpu_PadOp : Hpu_TensorOp<"pad"> {
  let summary = "Adds `low` and `high` elements of `value` around each dim";
  let arguments = (ins AnyRankedTensor:$x, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high, F64Attr:$value);
  let hasVerifier = 1;
}
def Hpu_GatherOp : Hpu_TensorOp<"gather"> {
  let summary = "Slices of x along axis, at indices (negative ones count from the end)";
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$indices, I64Attr:$axis);
}
def Hpu_GatherElementsOp : Hpu_TensorOp<"gather_elements"> {
  let summary = "For each element of indices, x's at its place but with that index (negative: from the end) along axis";
  let description = "x and indices have one rank; of other dims indices may be the smaller.";
  let arguments = (ins AnyRankedTensor:$x, AnyRankedTensor:$indices, I64Attr:$axis);
}
def Hpu_ScatterNdOp : Hpu_TensorOp<"scatter_nd", "uint32_t getWholeDims();"> {
  let summary = "data, with slices of updates at the places that tuples of indices name";
  let description = [{
    Each tuple, along the last dim of indices, names a place in the first dims of data; the slice of updates at the
    tuple's own place goes there. Negative indices count from the end; a tuple with an index outside of its dim is left
    out. Slices that meet are taken in the order of the tuples: the last one stays, or `mode` combines them with what is
    there. The result may lie where data does: only what is updated is written.
  }];
  let arguments = (ins AnyRankedTensor:$data, AnyRankedTensor:$indices, AnyRankedTensor:$updates,
                       DefaultValuedAttr<Hpu_ScatterModeAttr, "::hpu::ir::ScatterMode::replace">:$mode);
}
def Hpu_ScatterElementsOp : Hpu_TensorOp<"scatter_elements", "uint32_t getWholeDims() { return 1u << getAxis(); }"> {
  let summary = "data, with each element of updates at its own place but with the index along axis that indices has";
  let description = [{
    Of one rank; of dims other than axis updates may be smaller than data, and indices have the size of updates, or 1.
    With `advance` the index is that number plus the position along axis, where indices have one element; with `wraps` it
    is taken modulo the dim. Otherwise, as in `hpu.scatter_nd`: negative indices, those outside, elements that meet.
    `advance` has no negative indices: they are outside, unless `wraps`.
  }];
  let arguments = (ins AnyRankedTensor:$data, AnyRankedTensor:$indices, AnyRankedTensor:$updates, I64Attr:$axis,
                       DefaultValuedAttr<Hpu_ScatterModeAttr, "::hpu::ir::ScatterMode::replace">:$mode,
                       DefaultValuedAttr<BoolAttr, "false">:$advance, DefaultValuedAttr<BoolAttr, "false">:$wraps);
}
def Hpu_TopIndicesOp : Hpu_TensorOp<"top_indices", "uint32_t getWholeDims() { return 1u << getAxis(); }"> {
  let summary = "The indices (i64) along axis of the sizes[0] largest (or smallest) elements, in that order";
  let description = [{
    Of equal elements the first one comes first. NaN counts as larger than all numbers. The size may be the dynamic marker;
    `symbols` then says what it is.
  }];
  let arguments = (ins AnyRankedTensor:$x, I64Attr:$axis, DenseI64ArrayAttr:$sizes,
                       DefaultValuedAttr<BoolAttr, "true">:$largest, OptionalAttr<ArrayAttr>:$symbols);
}
def Hpu_SelectBoxesOp : Hpu_TensorOp<"select_boxes", "uint32_t getWholeDims() { return 1u << 2; }"> {
  let summary = "The boxes (i64 indices) of each class that none chosen before overlaps, in the given order, then -1";
  let description = [{
    boxes are [B, N, 4], scores [B, C, N], and order, i64 [B, C, N], names the boxes of each class as they are to be
    looked at. One is chosen if its score is above threshold (anything, without that operand), if fewer than most (i64)
    are, and if no chosen box shares an area with it that is more than overlap of the area that both cover. The three
    have one element. Boxes are two opposite corners, y first, or, centred, the middle and the size, x first.
  }];
  let arguments = (ins AnyRankedTensor:$boxes, AnyRankedTensor:$scores, AnyRankedTensor:$order, AnyRankedTensor:$most,
                       AnyRankedTensor:$overlap, Optional<AnyRankedTensor>:$threshold,
                       DefaultValuedAttr<BoolAttr, "false">:$centred);
}
def Hpu_RangeOp : Hpu_TensorOp<"range"> {
  let summary = "The integers starts[0] + i * steps[0], for i < sizes[0]";
  let description = [{
    Of rank 1. Start and size may be the dynamic marker; `start_symbols` and `symbols` then say what they are. It is
    folded once they are known: no engine computes it.
  }];
  let arguments = (ins DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$sizes, DenseI64ArrayAttr:$steps, TypeAttr:$element,
                       OptionalAttr<ArrayAttr>:$start_symbols, OptionalAttr<ArrayAttr>:$symbols);
  let hasVerifier = 1;
}
def Hpu_RelayoutOp : Hpu_Op<"relayout", [Pure, Hpu_OpInterface]> {
  let summary = "A copy into another physical order (or a dense one)";
  let arguments = (ins AnyRankedTensor:$x);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = "::hpu::ir::EngineKind getEngine() { return ::hpu::ir::EngineKind::Dma; }";
  let hasVerifier = 1;
}

#endif
