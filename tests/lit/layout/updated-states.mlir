// Scatters update a state where it lies; what reads it as it was comes first, or reads a copy from before.
// RUN: hpu-opt %s --split-input-file --hpu-fuse="optimize=false" --hpu-layout --hpu-verify-layout | FileCheck %s

// The sum is last in the model, and moves ahead of the update.
// CHECK-LABEL: func.func @readersFirst(
// CHECK-SAME: %[[X:[^:]*]]:
// CHECK-NOT: hpu.relayout
// CHECK: %[[SUM:.*]] = hpu.cluster (%{{[^ ]*}} = %[[X]])
// CHECK-NEXT: hpu.reduce_sum
// CHECK: %[[NEW:.*]] = hpu.cluster (%{{[^ ]*}} = %[[X]], {{.*}}) {hpu.strides = [array<i64: 64, 1>], hpu.updates = 0 : i64}
// CHECK-NEXT: hpu.scatter_nd
// CHECK-NOT: hpu.relayout
// CHECK: return %[[NEW]], %[[SUM]]
func.func @readersFirst(%x: tensor<8x64xf32> {hpu.state = 0 : i64, hpu.capacity = array<i64: 8, 64>}, %i: tensor<2x1xi64>, %u: tensor<2x64xf32>)
    -> (tensor<8x64xf32> {hpu.state = 0 : i64, hpu.capacity = array<i64: 8, 64>}, tensor<8xf32>) {
  %0 = hpu.scatter_nd %x, %i, %u : (tensor<8x64xf32>, tensor<2x1xi64>, tensor<2x64xf32>) -> tensor<8x64xf32>
  %1 = hpu.reduce_sum %x {axes = array<i64: 1>, keepdims = false} : (tensor<8x64xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8x64xf32>, tensor<8xf32>
}

// -----

// The product follows from the update and reads two rows of what was there: they are copied, and nothing else.
// CHECK-LABEL: func.func @copied(
// CHECK-SAME: %[[X:[^:]*]]:
// CHECK: %[[ROWS:.*]] = hpu.slice %[[X]]
// CHECK: %[[OLD:.*]] = hpu.relayout %[[ROWS]] : (tensor<2x64xf32>)
// CHECK: hpu.updates = 0 : i64
// CHECK-NOT: hpu.relayout
// CHECK: hpu.bundle {{.*}}%[[OLD]]
// CHECK-NOT: hpu.relayout
func.func @copied(%x: tensor<64x64xf32> {hpu.state = 0 : i64, hpu.capacity = array<i64: 64, 64>}, %i: tensor<2x1xi64>, %u: tensor<2x64xf32>)
    -> (tensor<64x64xf32> {hpu.state = 0 : i64, hpu.capacity = array<i64: 64, 64>}, tensor<2x64xf32>) {
  %0 = hpu.scatter_nd %x, %i, %u : (tensor<64x64xf32>, tensor<2x1xi64>, tensor<2x64xf32>) -> tensor<64x64xf32>
  %1 = hpu.slice %x {starts = array<i64: 3, 0>, sizes = array<i64: 2, 64>, steps = array<i64: 1, 1>} : (tensor<64x64xf32>) -> tensor<2x64xf32>
  %2 = hpu.matmul %1, %0 : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
  return %0, %2 : tensor<64x64xf32>, tensor<2x64xf32>
}

// -----

// Through a transpose, twice, in memory of larger sizes: each has the state's strides in its own order.
// CHECK-LABEL: func.func @twice(
// CHECK: hpu.strides = [array<i64: 1, 10>], hpu.updates = 0 : i64
// CHECK: hpu.strides = [array<i64: 10, 1>], hpu.updates = 0 : i64
// CHECK-NOT: hpu.relayout
func.func @twice(%x: tensor<3x8xf32> {hpu.state = 0 : i64, hpu.capacity = array<i64: 5, 10>}, %i: tensor<2x1xi64>, %u: tensor<2x3xf32>, %v: tensor<2x8xf32>)
    -> (tensor<3x8xf32> {hpu.state = 0 : i64, hpu.capacity = array<i64: 5, 10>}) {
  %0 = hpu.transpose %x {perm = array<i64: 1, 0>} : (tensor<3x8xf32>) -> tensor<8x3xf32>
  %1 = hpu.scatter_nd %0, %i, %u : (tensor<8x3xf32>, tensor<2x1xi64>, tensor<2x3xf32>) -> tensor<8x3xf32>
  %2 = hpu.transpose %1 {perm = array<i64: 1, 0>} : (tensor<8x3xf32>) -> tensor<3x8xf32>
  %3 = hpu.scatter_nd %2, %i, %v : (tensor<3x8xf32>, tensor<2x1xi64>, tensor<2x8xf32>) -> tensor<3x8xf32>
  return %3 : tensor<3x8xf32>
}

// -----

// What comes back in another order is another state: it is copied.
// CHECK-LABEL: func.func @permuted(
// CHECK-NOT: hpu.updates
// CHECK: hpu.relayout
func.func @permuted(%x: tensor<8x8xf32> {hpu.state = 0 : i64, hpu.capacity = array<i64: 8, 8>}, %i: tensor<2x1xi64>, %u: tensor<2x8xf32>)
    -> (tensor<8x8xf32> {hpu.state = 0 : i64, hpu.capacity = array<i64: 8, 8>}) {
  %0 = hpu.scatter_nd %x, %i, %u : (tensor<8x8xf32>, tensor<2x1xi64>, tensor<2x8xf32>) -> tensor<8x8xf32>
  %1 = hpu.transpose %0 {perm = array<i64: 1, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
