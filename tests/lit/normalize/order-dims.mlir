// RUN: hpu-opt %s --hpu-order-dims --hpu-merge-common | FileCheck %s

// A block that computes in another order of dims than its input and output: the transposes around it go, those of the
// heads take the order in (through a slice and a split of the last dim on one side, a merge of it on the other).
// CHECK-LABEL: func.func @block(
// CHECK-NOT: hpu.transpose %arg0
// CHECK: %[[P:.*]] = hpu.matmul %arg0, %arg1 : (tensor<2x6x8xf32>, tensor<8x16xf32>) -> tensor<2x6x16xf32>
// CHECK: %[[L:.*]] = hpu.slice %[[P]] {sizes = array<i64: 2, 6, 8>, starts = array<i64: 0, 0, 8>
// CHECK: %[[S:.*]] = hpu.reshape %[[L]] {shape = array<i64: 2, 6, 4, 2>}
// CHECK: %[[H:.*]] = hpu.transpose %[[S]] {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x6x4x2xf32>) -> tensor<2x4x6x2xf32>
// CHECK: %[[M:.*]] = hpu.matmul %[[H]], %arg2
// CHECK: %[[B:.*]] = hpu.transpose %[[M]] {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x4x6x2xf32>) -> tensor<2x6x4x2xf32>
// CHECK: %[[G:.*]] = hpu.reshape %[[B]] {shape = array<i64: 2, 6, 8>}
// CHECK: %[[A:.*]] = hpu.add %arg0, %[[G]]
// CHECK: %[[N:.*]] = hpu.layer_norm %[[A]]
// CHECK: return %[[N]]
func.func @block(%x: tensor<2x6x8xf32>, %w: tensor<8x16xf32>, %v: tensor<2x4x2x2xf32>, %g: tensor<8xf32>) -> tensor<2x6x8xf32> {
  %0 = hpu.transpose %x {perm = array<i64: 1, 0, 2>} : (tensor<2x6x8xf32>) -> tensor<6x2x8xf32>
  %1 = hpu.matmul %0, %w : (tensor<6x2x8xf32>, tensor<8x16xf32>) -> tensor<6x2x16xf32>
  %2 = hpu.slice %1 {starts = array<i64: 0, 0, 8>, sizes = array<i64: 6, 2, 8>, steps = array<i64: 1, 1, 1>} : (tensor<6x2x16xf32>) -> tensor<6x2x8xf32>
  %3 = hpu.reshape %2 {shape = array<i64: 6, 2, 4, 2>} : (tensor<6x2x8xf32>) -> tensor<6x2x4x2xf32>
  %4 = hpu.transpose %3 {perm = array<i64: 1, 2, 0, 3>} : (tensor<6x2x4x2xf32>) -> tensor<2x4x6x2xf32>
  %5 = hpu.matmul %4, %v : (tensor<2x4x6x2xf32>, tensor<2x4x2x2xf32>) -> tensor<2x4x6x2xf32>
  %6 = hpu.transpose %5 {perm = array<i64: 2, 0, 1, 3>} : (tensor<2x4x6x2xf32>) -> tensor<6x2x4x2xf32>
  %7 = hpu.reshape %6 {shape = array<i64: 6, 2, 8>} : (tensor<6x2x4x2xf32>) -> tensor<6x2x8xf32>
  %8 = hpu.add %0, %7 : (tensor<6x2x8xf32>, tensor<6x2x8xf32>) -> tensor<6x2x8xf32>
  %9 = hpu.layer_norm %8, %g {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<6x2x8xf32>, tensor<8xf32>) -> tensor<6x2x8xf32>
  %10 = hpu.transpose %9 {perm = array<i64: 1, 0, 2>} : (tensor<6x2x8xf32>) -> tensor<2x6x8xf32>
  return %10 : tensor<2x6x8xf32>
}

// What is one for all rows stays as it is; a constant of every row is permuted with them.
// CHECK-LABEL: func.func @constants(
// CHECK: %[[C:.*]] = hpu.transpose %{{.*}} {perm = array<i64: 1, 0, 2>} : (tensor<3x1x2xf32>) -> tensor<1x3x2xf32>
// CHECK: %[[A:.*]] = hpu.add %arg0, %[[C]] : (tensor<4x3x2xf32>, tensor<1x3x2xf32>) -> tensor<4x3x2xf32>
// CHECK: %[[M:.*]] = hpu.mul %[[A]], %arg1
// CHECK: return %[[M]]
func.func @constants(%x: tensor<4x3x2xf32>, %b: tensor<1x1x2xf32>) -> tensor<4x3x2xf32> {
  %c = hpu.constant dense<[[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]]]> : tensor<3x1x2xf32> : tensor<3x1x2xf32>
  %0 = hpu.transpose %x {perm = array<i64: 1, 0, 2>} : (tensor<4x3x2xf32>) -> tensor<3x4x2xf32>
  %1 = hpu.add %0, %c : (tensor<3x4x2xf32>, tensor<3x1x2xf32>) -> tensor<3x4x2xf32>
  %2 = hpu.mul %1, %b : (tensor<3x4x2xf32>, tensor<1x1x2xf32>) -> tensor<3x4x2xf32>
  %3 = hpu.transpose %2 {perm = array<i64: 1, 0, 2>} : (tensor<3x4x2xf32>) -> tensor<4x3x2xf32>
  return %3 : tensor<4x3x2xf32>
}

// As many would come as go: another argument, another reader of the transpose, an output in this order.
// CHECK-LABEL: func.func @as_many(
// CHECK: %[[A:.*]] = hpu.transpose %arg0
// CHECK: %[[S:.*]] = hpu.add %[[A]], %arg1
// CHECK: %[[B:.*]] = hpu.transpose %[[S]]
// CHECK: %[[D:.*]] = hpu.transpose %arg2 {perm = array<i64: 1, 0, 2>}
// CHECK: %[[R:.*]] = hpu.relu %[[D]]
// CHECK: return %[[B]], %[[S]], %[[D]], %[[R]]
func.func @as_many(%x: tensor<4x3x2xf32>, %y: tensor<3x4x2xf32>, %z: tensor<4x3x2xf32>) -> (tensor<4x3x2xf32>, tensor<3x4x2xf32>, tensor<3x4x2xf32>, tensor<3x4x2xf32>) {
  %0 = hpu.transpose %x {perm = array<i64: 1, 0, 2>} : (tensor<4x3x2xf32>) -> tensor<3x4x2xf32>
  %1 = hpu.add %0, %y : (tensor<3x4x2xf32>, tensor<3x4x2xf32>) -> tensor<3x4x2xf32>
  %2 = hpu.transpose %1 {perm = array<i64: 1, 0, 2>} : (tensor<3x4x2xf32>) -> tensor<4x3x2xf32>
  %3 = hpu.transpose %z {perm = array<i64: 1, 0, 2>} : (tensor<4x3x2xf32>) -> tensor<3x4x2xf32>
  %4 = hpu.relu %3 : (tensor<3x4x2xf32>) -> tensor<3x4x2xf32>
  return %2, %1, %3, %4 : tensor<4x3x2xf32>, tensor<3x4x2xf32>, tensor<3x4x2xf32>, tensor<3x4x2xf32>
}

// The last dim moves; the op between normalises over a leading dim, multiplies batches, or broadcasts rows by rank alone;
// the transpose leads from a region into itself; a dim is free.
// CHECK-LABEL: func.func @refused(
// CHECK: hpu.transpose %arg0 {perm = array<i64: 0, 2, 1>}
// CHECK: hpu.transpose %{{.*}} {perm = array<i64: 0, 2, 1>}
// CHECK: %[[S:.*]] = hpu.softmax %{{.*}} {axis = 0 : i64} : (tensor<3x4x2xf32>) -> tensor<3x4x2xf32>
// CHECK: hpu.transpose %[[S]]
// CHECK: %[[P:.*]] = hpu.matmul %{{.*}}, %arg2 : (tensor<3x4x2xf32>, tensor<3x2x5xf32>) -> tensor<3x4x5xf32>
// CHECK: hpu.transpose %[[P]]
// CHECK: %[[A:.*]] = hpu.add %{{.*}}, %arg3 : (tensor<3x4x2xf32>, tensor<4x2xf32>) -> tensor<3x4x2xf32>
// CHECK: hpu.transpose %[[A]]
func.func @refused(%x: tensor<4x3x2xf32>, %y: tensor<4x3x2xf32>, %b: tensor<3x2x5xf32>, %r: tensor<4x2xf32>) -> (tensor<4x3x2xf32>, tensor<4x3x2xf32>, tensor<4x3x5xf32>, tensor<4x3x2xf32>) {
  %0 = hpu.transpose %x {perm = array<i64: 0, 2, 1>} : (tensor<4x3x2xf32>) -> tensor<4x2x3xf32>
  %1 = hpu.relu %0 : (tensor<4x2x3xf32>) -> tensor<4x2x3xf32>
  %2 = hpu.transpose %1 {perm = array<i64: 0, 2, 1>} : (tensor<4x2x3xf32>) -> tensor<4x3x2xf32>
  %3 = hpu.transpose %y {perm = array<i64: 1, 0, 2>} : (tensor<4x3x2xf32>) -> tensor<3x4x2xf32>
  %4 = hpu.softmax %3 {axis = 0 : i64} : (tensor<3x4x2xf32>) -> tensor<3x4x2xf32>
  %5 = hpu.transpose %4 {perm = array<i64: 1, 0, 2>} : (tensor<3x4x2xf32>) -> tensor<4x3x2xf32>
  %6 = hpu.matmul %3, %b : (tensor<3x4x2xf32>, tensor<3x2x5xf32>) -> tensor<3x4x5xf32>
  %7 = hpu.transpose %6 {perm = array<i64: 1, 0, 2>} : (tensor<3x4x5xf32>) -> tensor<4x3x5xf32>
  %8 = hpu.add %3, %r : (tensor<3x4x2xf32>, tensor<4x2xf32>) -> tensor<3x4x2xf32>
  %9 = hpu.transpose %8 {perm = array<i64: 1, 0, 2>} : (tensor<3x4x2xf32>) -> tensor<4x3x2xf32>
  return %2, %5, %7, %9 : tensor<4x3x2xf32>, tensor<4x3x2xf32>, tensor<4x3x5xf32>, tensor<4x3x2xf32>
}

// CHECK-LABEL: func.func @into_itself(
// CHECK: %[[R:.*]] = hpu.relu %arg0
// CHECK: %[[T:.*]] = hpu.transpose %[[R]]
// CHECK: hpu.add %[[R]], %[[T]]
func.func @into_itself(%x: tensor<3x3x2xf32>) -> tensor<3x3x2xf32> {
  %0 = hpu.relu %x : (tensor<3x3x2xf32>) -> tensor<3x3x2xf32>
  %1 = hpu.transpose %0 {perm = array<i64: 1, 0, 2>} : (tensor<3x3x2xf32>) -> tensor<3x3x2xf32>
  %2 = hpu.add %0, %1 : (tensor<3x3x2xf32>, tensor<3x3x2xf32>) -> tensor<3x3x2xf32>
  return %2 : tensor<3x3x2xf32>
}

// CHECK-LABEL: func.func @free_dim(
// CHECK-COUNT-2: hpu.transpose
func.func @free_dim(%x: tensor<?x3x2xf32>) -> tensor<?x3x2xf32> {
  %0 = hpu.transpose %x {perm = array<i64: 1, 0, 2>} : (tensor<?x3x2xf32>) -> tensor<3x?x2xf32>
  %1 = hpu.relu %0 : (tensor<3x?x2xf32>) -> tensor<3x?x2xf32>
  %2 = hpu.transpose %1 {perm = array<i64: 1, 0, 2>} : (tensor<3x?x2xf32>) -> tensor<?x3x2xf32>
  return %2 : tensor<?x3x2xf32>
}
