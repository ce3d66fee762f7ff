// Copies that remain: where strides do not suffice.
// RUN: hpu-opt %s --hpu-fuse --hpu-layout --hpu-verify-layout | FileCheck %s

// A reshape of transposed memory is no view: the copy stands ahead of it.
// CHECK-LABEL: func.func @reshapeOfTranspose(
// CHECK: %[[T:.*]] = hpu.transpose
// CHECK: %[[C:.*]] = hpu.relayout %[[T]]
// CHECK: %[[R:.*]] = hpu.reshape %[[C]]
// CHECK: hpu.cluster (%{{.*}} = %[[R]])
func.func @reshapeOfTranspose(%x: tensor<4x8xf32>) -> tensor<32xf32> {
  %0 = hpu.transpose %x {perm = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %1 = hpu.reshape %0 {shape = array<i64: 32>} : (tensor<8x4xf32>) -> tensor<32xf32>
  %2 = hpu.relu %1 : (tensor<32xf32>) -> tensor<32xf32>
  return %2 : tensor<32xf32>
}

// Slices, broadcasts and transposes in a row are strides.
// CHECK-LABEL: func.func @views(
// CHECK-NOT: hpu.relayout
// CHECK: return
func.func @views(%x: tensor<4x1x8xf32>) -> tensor<4x3x4xf32> {
  %0 = hpu.slice %x {starts = array<i64: 0, 0, 1>, sizes = array<i64: 4, 1, 4>, steps = array<i64: 1, 1, 2>} : (tensor<4x1x8xf32>) -> tensor<4x1x4xf32>
  %1 = hpu.transpose %0 {perm = array<i64: 2, 1, 0>} : (tensor<4x1x4xf32>) -> tensor<4x1x4xf32>
  %2 = hpu.expand %1 {shape = array<i64: 4, 3, 4>} : (tensor<4x1x4xf32>) -> tensor<4x3x4xf32>
  %3 = hpu.relu %2 : (tensor<4x3x4xf32>) -> tensor<4x3x4xf32>
  return %3 : tensor<4x3x4xf32>
}

// A product whose operand has neither matrix dim contiguous needs a copy.
// CHECK-LABEL: func.func @stridedOperand(
// CHECK: %[[S:.*]] = hpu.slice
// CHECK: %[[C:.*]] = hpu.relayout %[[S]]
// CHECK: hpu.bundle (%{{.*}} = %[[C]],
func.func @stridedOperand(%x: tensor<4x16xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %0 = hpu.slice %x {starts = array<i64: 0, 0>, sizes = array<i64: 4, 8>, steps = array<i64: 1, 2>} : (tensor<4x16xf32>) -> tensor<4x8xf32>
  %1 = hpu.matmul %0, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// A tile of every dimension has more dimensions than a shape usually has.
// CHECK-LABEL: func.func @tile(
// CHECK: %[[E:.*]] = hpu.expand
// CHECK: %[[C:.*]] = hpu.relayout %[[E]]
// CHECK: hpu.reshape %[[C]]
func.func @tile(%x: tensor<1x2x1x3x1x4x1x5xf32>) -> tensor<4x6x8x10xf32> {
  %0 = hpu.expand %x {shape = array<i64: 2, 2, 2, 3, 2, 4, 2, 5>} : (tensor<1x2x1x3x1x4x1x5xf32>) -> tensor<2x2x2x3x2x4x2x5xf32>
  %1 = hpu.reshape %0 {shape = array<i64: 4, 6, 8, 10>} : (tensor<2x2x2x3x2x4x2x5xf32>) -> tensor<4x6x8x10xf32>
  return %1 : tensor<4x6x8x10xf32>
}
