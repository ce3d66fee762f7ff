// RUN: hpu-opt %s --hpu-move-reshapes --hpu-merge-common | FileCheck %s

// A projection of flattened tokens, a residual and a norm: the split rises to the merge above the product, and both go.
// CHECK-LABEL: func.func @projection(
// CHECK-NOT: hpu.reshape
// CHECK: %[[P:.*]] = hpu.matmul %arg0, %arg2 : (tensor<4x6x8xf32>, tensor<8x8xf32>) -> tensor<4x6x8xf32>
// CHECK: %[[B:.*]] = hpu.add %[[P]], %arg3
// CHECK: %[[R:.*]] = hpu.add %arg1, %[[B]]
// CHECK: hpu.layer_norm %[[R]]
func.func @projection(%x: tensor<4x6x8xf32>, %r: tensor<4x6x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>) -> tensor<4x6x8xf32> {
  %0 = hpu.reshape %x {shape = array<i64: 24, 8>} : (tensor<4x6x8xf32>) -> tensor<24x8xf32>
  %1 = hpu.matmul %0, %w : (tensor<24x8xf32>, tensor<8x8xf32>) -> tensor<24x8xf32>
  %2 = hpu.add %1, %b : (tensor<24x8xf32>, tensor<8xf32>) -> tensor<24x8xf32>
  %3 = hpu.reshape %2 {shape = array<i64: 4, 6, 8>} : (tensor<24x8xf32>) -> tensor<4x6x8xf32>
  %4 = hpu.add %r, %3 : (tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> tensor<4x6x8xf32>
  %5 = hpu.layer_norm %4, %b, %b {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x6x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x6x8xf32>
  return %5 : tensor<4x6x8xf32>
}

// A dim of size 1; a norm and a softmax over the last dim; an operand that repeats over the rows.
// CHECK-LABEL: func.func @row_ops(
// CHECK: %[[X:.*]] = hpu.reshape %arg0 {shape = array<i64: 6, 1, 8>}
// CHECK: %[[N:.*]] = hpu.layer_norm %[[X]], %arg1 {axis = 2 : i64
// CHECK: %[[S:.*]] = hpu.softmax %[[N]] {axis = 2 : i64}
// CHECK: %[[C:.*]] = hpu.reshape %arg2 {shape = array<i64: 6, 1, 1>}
// CHECK: %[[A:.*]] = hpu.mul %[[S]], %[[C]]
// CHECK: hpu.relu %[[A]]
func.func @row_ops(%x: tensor<6x8xf32>, %g: tensor<8xf32>, %c: tensor<6x1xf32>) -> tensor<6x1x8xf32> {
  %0 = hpu.layer_norm %x, %g {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<6x8xf32>, tensor<8xf32>) -> tensor<6x8xf32>
  %1 = hpu.softmax %0 {axis = 1 : i64} : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %2 = hpu.mul %1, %c : (tensor<6x8xf32>, tensor<6x1xf32>) -> tensor<6x8xf32>
  %3 = hpu.reshape %2 {shape = array<i64: 6, 1, 8>} : (tensor<6x8xf32>) -> tensor<6x1x8xf32>
  %4 = hpu.relu %3 : (tensor<6x1x8xf32>) -> tensor<6x1x8xf32>
  return %4 : tensor<6x1x8xf32>
}

// The last dim changes; nothing computes on the split shape; the op above has another reader; a product of two batches.
// CHECK-LABEL: func.func @stay(
// CHECK: %[[A:.*]] = hpu.relu %arg0
// CHECK: %[[AR:.*]] = hpu.reshape %[[A]] {shape = array<i64: 6, 2, 4>}
// CHECK: hpu.sigmoid %[[AR]]
// CHECK: %[[B:.*]] = hpu.tanh %arg0
// CHECK: %[[BR:.*]] = hpu.reshape %[[B]] {shape = array<i64: 2, 3, 8>}
// CHECK: hpu.matmul %[[BR]], %arg1
// CHECK: %[[C:.*]] = hpu.exp %arg0
// CHECK: %[[CR:.*]] = hpu.reshape %[[C]] {shape = array<i64: 2, 3, 8>}
// CHECK: hpu.neg %[[CR]]
// CHECK: %[[D:.*]] = hpu.matmul %arg2, %arg3
// CHECK: %[[DR:.*]] = hpu.reshape %[[D]] {shape = array<i64: 2, 3, 4, 4>}
// CHECK: hpu.relu %[[DR]]
func.func @stay(%x: tensor<6x8xf32>, %w: tensor<8x5xf32>, %a: tensor<6x4x8xf32>, %b: tensor<6x8x4xf32>) -> (tensor<6x2x4xf32>, tensor<2x3x5xf32>, tensor<6x8xf32>, tensor<2x3x8xf32>, tensor<2x3x4x4xf32>) {
  %0 = hpu.relu %x : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %1 = hpu.reshape %0 {shape = array<i64: 6, 2, 4>} : (tensor<6x8xf32>) -> tensor<6x2x4xf32>
  %2 = hpu.sigmoid %1 : (tensor<6x2x4xf32>) -> tensor<6x2x4xf32>
  %3 = hpu.tanh %x : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %4 = hpu.reshape %3 {shape = array<i64: 2, 3, 8>} : (tensor<6x8xf32>) -> tensor<2x3x8xf32>
  %5 = hpu.matmul %4, %w : (tensor<2x3x8xf32>, tensor<8x5xf32>) -> tensor<2x3x5xf32>
  %6 = hpu.exp %x : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %7 = hpu.reshape %6 {shape = array<i64: 2, 3, 8>} : (tensor<6x8xf32>) -> tensor<2x3x8xf32>
  %8 = hpu.neg %7 : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %9 = hpu.matmul %a, %b : (tensor<6x4x8xf32>, tensor<6x8x4xf32>) -> tensor<6x4x4xf32>
  %10 = hpu.reshape %9 {shape = array<i64: 2, 3, 4, 4>} : (tensor<6x4x4xf32>) -> tensor<2x3x4x4xf32>
  %11 = hpu.relu %10 : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  return %2, %5, %6, %8, %11 : tensor<6x2x4xf32>, tensor<2x3x5xf32>, tensor<6x8xf32>, tensor<2x3x8xf32>, tensor<2x3x4x4xf32>
}
