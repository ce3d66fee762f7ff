// A unit runs as a whole, so no unit may wait for what only its own result makes possible.
// RUN: hpu-opt %s --hpu-fuse --hpu-verify-fused | FileCheck %s

// %0 escapes to a softmax and comes back: joining the sum would make the unit wait for itself.
// CHECK-LABEL: func.func @escapesAndComesBack(
// CHECK-SAME: %[[X:.*]]: tensor<2x8xf32>
// CHECK: %[[R:.*]] = hpu.cluster (%{{.*}} = %[[X]])
// CHECK-NEXT: hpu.reduce_sum
// CHECK-NEXT: hpu.neg
// CHECK-NEXT: hpu.yield
// CHECK: %[[S:.*]] = hpu.cluster (%{{.*}} = %[[R]])
// CHECK-NEXT: hpu.reduce_max
// CHECK-NEXT: hpu.yield
// CHECK: hpu.cluster (%{{.*}} = %[[R]], %{{.*}} = %[[S]])
// CHECK-NEXT: hpu.add
// CHECK-NEXT: hpu.yield
func.func @escapesAndComesBack(%x: tensor<2x8xf32>) -> tensor<2x1xf32> {
  %0 = hpu.reduce_sum %x {axes = array<i64: 1>} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %1 = hpu.neg %0 : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %2 = hpu.reduce_max %1 {axes = array<i64: 0>} : (tensor<2x1xf32>) -> tensor<1x1xf32>
  %3 = hpu.add %1, %2 : (tensor<2x1xf32>, tensor<1x1xf32>) -> tensor<2x1xf32>
  return %3 : tensor<2x1xf32>
}

// Each product's sum reads the other bundle's first result, transposed. Both may not have their sums.
// CHECK-LABEL: func.func @crosswise(
// CHECK: %[[B:.*]] = hpu.bundle
// CHECK-NEXT: hpu.matmul
// CHECK-NEXT: hpu.tanh
// CHECK-NEXT: hpu.yield
// CHECK: %[[BT:.*]] = hpu.transpose %[[B]]
// CHECK: %[[A:.*]]:2 = hpu.bundle ({{.*}} = %[[BT]])
// CHECK-NEXT: hpu.matmul
// CHECK-NEXT: hpu.relu
// CHECK-NEXT: hpu.add
// CHECK-NEXT: hpu.yield
// CHECK: %[[AT:.*]] = hpu.transpose %[[A]]#1
// CHECK: %[[C:.*]] = hpu.cluster (%{{.*}} = %[[B]], %{{.*}} = %[[AT]])
// CHECK-NEXT: hpu.mul
// CHECK: return %[[A]]#0, %[[C]]
func.func @crosswise(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %y: tensor<6x8xf32>, %v: tensor<8x4xf32>) -> (tensor<4x6xf32>, tensor<6x4xf32>) {
  %a0 = hpu.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %a1 = hpu.relu %a0 : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %b0 = hpu.matmul %y, %v : (tensor<6x8xf32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  %b1 = hpu.tanh %b0 : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %at = hpu.transpose %a1 {perm = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %bt = hpu.transpose %b1 {perm = array<i64: 1, 0>} : (tensor<6x4xf32>) -> tensor<4x6xf32>
  %a2 = hpu.add %a1, %bt : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %b2 = hpu.mul %b1, %at : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  return %a2, %b2 : tensor<4x6xf32>, tensor<6x4xf32>
}

// %1 is read by the sum's unit, and so is what a matrix product makes of it: as a producer it would wait for itself.
// CHECK-LABEL: func.func @producerComesBack(
// CHECK-SAME: %[[X:[^:]*]]: tensor<4x4xf32>, %[[Y:[^:]*]]: tensor<4x4xf32>
// CHECK: %[[R:.*]] = hpu.cluster (%{{.*}} = %[[Y]])
// CHECK-NEXT: hpu.relu
// CHECK-NEXT: hpu.yield
// CHECK: %[[M:.*]] = hpu.bundle (%{{.*}} = %[[R]],
// CHECK: hpu.cluster
// CHECK-NEXT: hpu.neg
// CHECK-NEXT: hpu.add
// CHECK-NEXT: hpu.mul
func.func @producerComesBack(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = hpu.neg %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = hpu.relu %y : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = hpu.matmul %1, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %t = hpu.transpose %2 {perm = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = hpu.add %0, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = hpu.mul %3, %t : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %4, %2 : tensor<4x4xf32>, tensor<4x4xf32>
}

// The epilogue of a product takes no producers: they run while the product does.
// CHECK-LABEL: func.func @producerOfAnEpilogue(
// CHECK: hpu.cluster
// CHECK-NEXT: hpu.relu
// CHECK: hpu.bundle
// CHECK-NEXT: hpu.matmul
// CHECK-NEXT: hpu.add
// CHECK-NEXT: hpu.yield
func.func @producerOfAnEpilogue(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = hpu.matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = hpu.relu %y : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = hpu.add %0, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}
