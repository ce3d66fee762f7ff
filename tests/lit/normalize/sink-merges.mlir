// RUN: hpu-opt %s --hpu-move-reshapes --hpu-merge-common | FileCheck %s

// One head's share of a merged projection: batch and heads of a slice cannot be one strided dim. The merge sinks below
// both products and the softmax, and what it meets behind them takes it in.
// CHECK-LABEL: func.func @attention(
// CHECK-DAG: %[[Q:.*]] = hpu.reshape %{{.*}} {shape = array<i64: 6, 2, 4, 8>}
// CHECK: %[[QT:.*]] = hpu.transpose %[[Q]] {perm = array<i64: 1, 2, 0, 3>} : (tensor<6x2x4x8xf32>) -> tensor<2x4x6x8xf32>
// CHECK: %[[KT:.*]] = hpu.transpose %{{.*}} {perm = array<i64: 1, 2, 3, 0>} : (tensor<6x2x4x8xf32>) -> tensor<2x4x8x6xf32>
// CHECK: %[[S:.*]] = hpu.matmul %[[QT]], %[[KT]]
// CHECK: %[[M:.*]] = hpu.mul %[[S]], %{{.*}} : (tensor<2x4x6x6xf32>, tensor<f32>)
// CHECK: %[[P:.*]] = hpu.softmax %[[M]] {axis = 3 : i64}
// CHECK: %[[O:.*]] = hpu.matmul %[[P]], %{{.*}} : (tensor<2x4x6x6xf32>, tensor<2x4x6x8xf32>) -> tensor<2x4x6x8xf32>
// CHECK: %[[OT:.*]] = hpu.transpose %[[O]] {perm = array<i64: 2, 0, 1, 3>} : (tensor<2x4x6x8xf32>) -> tensor<6x2x4x8xf32>
// CHECK: %[[R:.*]] = hpu.reshape %[[OT]] {shape = array<i64: 12, 32>}
// CHECK: return %[[R]]
func.func @attention(%x: tensor<6x2x96xf32>) -> tensor<12x32xf32> {
  %q = hpu.slice %x {starts = array<i64: 0, 0, 0>, sizes = array<i64: 6, 2, 32>, steps = array<i64: 1, 1, 1>} : (tensor<6x2x96xf32>) -> tensor<6x2x32xf32>
  %k = hpu.slice %x {starts = array<i64: 0, 0, 32>, sizes = array<i64: 6, 2, 32>, steps = array<i64: 1, 1, 1>} : (tensor<6x2x96xf32>) -> tensor<6x2x32xf32>
  %v = hpu.slice %x {starts = array<i64: 0, 0, 64>, sizes = array<i64: 6, 2, 32>, steps = array<i64: 1, 1, 1>} : (tensor<6x2x96xf32>) -> tensor<6x2x32xf32>
  %0 = hpu.reshape %q {shape = array<i64: 6, 8, 8>} : (tensor<6x2x32xf32>) -> tensor<6x8x8xf32>
  %1 = hpu.transpose %0 {perm = array<i64: 1, 0, 2>} : (tensor<6x8x8xf32>) -> tensor<8x6x8xf32>
  %2 = hpu.reshape %k {shape = array<i64: 6, 8, 8>} : (tensor<6x2x32xf32>) -> tensor<6x8x8xf32>
  %3 = hpu.transpose %2 {perm = array<i64: 1, 2, 0>} : (tensor<6x8x8xf32>) -> tensor<8x8x6xf32>
  %4 = hpu.reshape %v {shape = array<i64: 6, 8, 8>} : (tensor<6x2x32xf32>) -> tensor<6x8x8xf32>
  %5 = hpu.transpose %4 {perm = array<i64: 1, 0, 2>} : (tensor<6x8x8xf32>) -> tensor<8x6x8xf32>
  %6 = hpu.matmul %1, %3 : (tensor<8x6x8xf32>, tensor<8x8x6xf32>) -> tensor<8x6x6xf32>
  %c = hpu.constant dense<0.25> : tensor<f32> : tensor<f32>
  %7 = hpu.mul %6, %c : (tensor<8x6x6xf32>, tensor<f32>) -> tensor<8x6x6xf32>
  %8 = hpu.softmax %7 {axis = 2 : i64} : (tensor<8x6x6xf32>) -> tensor<8x6x6xf32>
  %9 = hpu.matmul %8, %5 : (tensor<8x6x6xf32>, tensor<8x6x8xf32>) -> tensor<8x6x8xf32>
  %10 = hpu.transpose %9 {perm = array<i64: 1, 0, 2>} : (tensor<8x6x8xf32>) -> tensor<6x8x8xf32>
  %11 = hpu.reshape %10 {shape = array<i64: 12, 32>} : (tensor<6x8x8xf32>) -> tensor<12x32xf32>
  return %11 : tensor<12x32xf32>
}

// Heads that share keys: the merge of the repeated ones would be a copy. The other operand is split, at no cost.
// CHECK-LABEL: func.func @grouped_heads(
// CHECK-DAG: %[[E:.*]] = hpu.expand %arg1
// CHECK-DAG: %[[Q:.*]] = hpu.reshape %arg0 {shape = array<i64: 2, 3, 4, 5, 8>}
// CHECK: %[[P:.*]] = hpu.matmul %[[Q]], %[[E]] : (tensor<2x3x4x5x8xf32>, tensor<2x3x4x8x5xf32>) -> tensor<2x3x4x5x5xf32>
// CHECK: hpu.reshape %[[P]] {shape = array<i64: 2, 12, 5, 5>}
func.func @grouped_heads(%q: tensor<2x12x5x8xf32>, %k: tensor<2x3x1x8x5xf32>) -> tensor<2x12x5x5xf32> {
  %0 = hpu.expand %k {shape = array<i64: 2, 3, 4, 8, 5>} : (tensor<2x3x1x8x5xf32>) -> tensor<2x3x4x8x5xf32>
  %1 = hpu.reshape %0 {shape = array<i64: 2, 12, 8, 5>} : (tensor<2x3x4x8x5xf32>) -> tensor<2x12x8x5xf32>
  %2 = hpu.matmul %q, %1 : (tensor<2x12x5x8xf32>, tensor<2x12x8x5xf32>) -> tensor<2x12x5x5xf32>
  return %2 : tensor<2x12x5x5xf32>
}

// Windows of an image are rows of a product whichever dims they have.
// CHECK-LABEL: func.func @windows(
// CHECK: %[[T:.*]] = hpu.transpose %arg0 {perm = array<i64: 0, 2, 1, 3, 4>}
// CHECK: %[[P:.*]] = hpu.matmul %[[T]], %arg1 : (tensor<2x3x4x4x8xf32>, tensor<8x5xf32>) -> tensor<2x3x4x4x5xf32>
// CHECK: hpu.reshape %[[P]] {shape = array<i64: 6, 16, 5>}
func.func @windows(%x: tensor<2x4x3x4x8xf32>, %w: tensor<8x5xf32>) -> tensor<6x16x5xf32> {
  %0 = hpu.transpose %x {perm = array<i64: 0, 2, 1, 3, 4>} : (tensor<2x4x3x4x8xf32>) -> tensor<2x3x4x4x8xf32>
  %1 = hpu.reshape %0 {shape = array<i64: 6, 16, 8>} : (tensor<2x3x4x4x8xf32>) -> tensor<6x16x8xf32>
  %2 = hpu.matmul %1, %w : (tensor<6x16x8xf32>, tensor<8x5xf32>) -> tensor<6x16x5xf32>
  return %2 : tensor<6x16x5xf32>
}

// Between a product and what is computed behind it: a broadcast operand is split with it, a dim that it repeats stays 1.
// CHECK-LABEL: func.func @behind_a_product(
// CHECK: %[[P:.*]] = hpu.matmul %arg0, %arg1
// CHECK: %[[M:.*]] = hpu.reshape %arg2 {shape = array<i64: 2, 3, 1, 5>}
// CHECK: %[[A:.*]] = hpu.add %[[P]], %[[M]] : (tensor<2x3x4x5xf32>, tensor<2x3x1x5xf32>) -> tensor<2x3x4x5xf32>
// CHECK: %[[R:.*]] = hpu.relu %[[A]]
// CHECK: hpu.reshape %[[R]] {shape = array<i64: 6, 4, 5>}
func.func @behind_a_product(%a: tensor<2x3x4x8xf32>, %b: tensor<2x3x8x5xf32>, %m: tensor<6x1x5xf32>) -> tensor<6x4x5xf32> {
  %0 = hpu.matmul %a, %b : (tensor<2x3x4x8xf32>, tensor<2x3x8x5xf32>) -> tensor<2x3x4x5xf32>
  %1 = hpu.reshape %0 {shape = array<i64: 6, 4, 5>} : (tensor<2x3x4x5xf32>) -> tensor<6x4x5xf32>
  %2 = hpu.add %1, %m : (tensor<6x4x5xf32>, tensor<6x1x5xf32>) -> tensor<6x4x5xf32>
  %3 = hpu.relu %2 : (tensor<6x4x5xf32>) -> tensor<6x4x5xf32>
  return %3 : tensor<6x4x5xf32>
}

// No reason: strides express the merge, and nothing below it could be computed in the unit above.
// CHECK-LABEL: func.func @free(
// CHECK: %[[R:.*]] = hpu.reshape %arg0 {shape = array<i64: 6, 4, 8>}
// CHECK: hpu.matmul %[[R]], %arg1
// CHECK: %[[V:.*]] = hpu.reshape %arg0 {shape = array<i64: 6, 32>}
// CHECK: hpu.relu %[[V]]
func.func @free(%x: tensor<2x3x4x8xf32>, %w: tensor<8x5xf32>) -> (tensor<6x4x5xf32>, tensor<6x32xf32>) {
  %0 = hpu.reshape %x {shape = array<i64: 6, 4, 8>} : (tensor<2x3x4x8xf32>) -> tensor<6x4x8xf32>
  %1 = hpu.matmul %0, %w : (tensor<6x4x8xf32>, tensor<8x5xf32>) -> tensor<6x4x5xf32>
  %2 = hpu.reshape %x {shape = array<i64: 6, 32>} : (tensor<2x3x4x8xf32>) -> tensor<6x32xf32>
  %3 = hpu.relu %2 : (tensor<6x32xf32>) -> tensor<6x32xf32>
  return %1, %3 : tensor<6x4x5xf32>, tensor<6x32xf32>
}

// The dim that is merged is the one that is summed, or normalised, over; the rows of a batched product belong to one batch.
// CHECK-LABEL: func.func @whole_dims(
// CHECK: %[[T:.*]] = hpu.transpose %arg0
// CHECK: %[[R:.*]] = hpu.reshape %[[T]] {shape = array<i64: 4, 6>}
// CHECK: hpu.matmul %[[R]], %arg1
// CHECK: hpu.softmax %[[R]]
// CHECK: %[[U:.*]] = hpu.transpose %arg2
// CHECK: %[[W:.*]] = hpu.reshape %[[U]] {shape = array<i64: 2, 12, 8>}
// CHECK: hpu.matmul %[[W]], %arg3
func.func @whole_dims(%x: tensor<2x4x3xf32>, %w: tensor<6x5xf32>, %y: tensor<2x4x3x8xf32>, %b: tensor<2x8x5xf32>) -> (tensor<4x5xf32>, tensor<4x6xf32>, tensor<2x12x5xf32>) {
  %0 = hpu.transpose %x {perm = array<i64: 1, 0, 2>} : (tensor<2x4x3xf32>) -> tensor<4x2x3xf32>
  %1 = hpu.reshape %0 {shape = array<i64: 4, 6>} : (tensor<4x2x3xf32>) -> tensor<4x6xf32>
  %2 = hpu.matmul %1, %w : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>
  %3 = hpu.softmax %1 {axis = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %4 = hpu.transpose %y {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x4x3x8xf32>) -> tensor<2x3x4x8xf32>
  %5 = hpu.reshape %4 {shape = array<i64: 2, 12, 8>} : (tensor<2x3x4x8xf32>) -> tensor<2x12x8xf32>
  %6 = hpu.matmul %5, %b : (tensor<2x12x8xf32>, tensor<2x8x5xf32>) -> tensor<2x12x5xf32>
  return %2, %3, %6 : tensor<4x5xf32>, tensor<4x6xf32>, tensor<2x12x5xf32>
}

// The split of the other operand would come between its product and the addition behind it.
// CHECK-LABEL: func.func @keeps_other_units(
// CHECK: %[[R:.*]] = hpu.reshape %{{.*}} {shape = array<i64: 6, 8>}
// CHECK: %[[P:.*]] = hpu.matmul %arg1, %arg2
// CHECK: hpu.add %[[R]], %[[P]]
func.func @keeps_other_units(%x: tensor<3x2x8xf32>, %a: tensor<6x4xf32>, %b: tensor<4x8xf32>) -> tensor<6x8xf32> {
  %0 = hpu.transpose %x {perm = array<i64: 1, 0, 2>} : (tensor<3x2x8xf32>) -> tensor<2x3x8xf32>
  %1 = hpu.reshape %0 {shape = array<i64: 6, 8>} : (tensor<2x3x8xf32>) -> tensor<6x8xf32>
  %2 = hpu.matmul %a, %b : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  %3 = hpu.add %1, %2 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  return %3 : tensor<6x8xf32>
}

// 4 x 6 and 6 x 4 have no common refinement; a result of more than eight dims has no descriptor; free dims stay.
// CHECK-LABEL: func.func @refused(
// CHECK: %[[A:.*]] = hpu.reshape %{{.*}} {shape = array<i64: 6, 4>}
// CHECK: hpu.relu %[[A]]
// CHECK: %[[B:.*]] = hpu.reshape %{{.*}} {shape = array<i64: 16, 2, 2, 2, 2, 2>}
// CHECK: hpu.relu %[[B]]
// CHECK: %[[C:.*]] = hpu.reshape %{{.*}} {shape = array<i64: -9223372036854775808, 8>}
// CHECK: hpu.relu %[[C]]
func.func @refused(%x: tensor<6x4xf32>, %y: tensor<2x2x2x2x2x2x2x2x2xf32>, %z: tensor<?x3x8xf32>) -> (tensor<6x4xf32>, tensor<16x2x2x2x2x2xf32>, tensor<?x8xf32>) {
  %0 = hpu.transpose %x {perm = array<i64: 1, 0>} : (tensor<6x4xf32>) -> tensor<4x6xf32>
  %1 = hpu.reshape %0 {shape = array<i64: 6, 4>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %2 = hpu.relu %1 : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %3 = hpu.transpose %y {perm = array<i64: 1, 0, 3, 2, 4, 5, 6, 7, 8>} : (tensor<2x2x2x2x2x2x2x2x2xf32>) -> tensor<2x2x2x2x2x2x2x2x2xf32>
  %4 = hpu.reshape %3 {shape = array<i64: 16, 2, 2, 2, 2, 2>} : (tensor<2x2x2x2x2x2x2x2x2xf32>) -> tensor<16x2x2x2x2x2xf32>
  %5 = hpu.relu %4 : (tensor<16x2x2x2x2x2xf32>) -> tensor<16x2x2x2x2x2xf32>
  %6 = hpu.transpose %z {perm = array<i64: 1, 0, 2>} : (tensor<?x3x8xf32>) -> tensor<3x?x8xf32>
  %7 = hpu.reshape %6 {shape = array<i64: -9223372036854775808, 8>} : (tensor<3x?x8xf32>) -> tensor<?x8xf32>
  %8 = hpu.relu %7 : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %2, %5, %8 : tensor<6x4xf32>, tensor<16x2x2x2x2x2xf32>, tensor<?x8xf32>
}
