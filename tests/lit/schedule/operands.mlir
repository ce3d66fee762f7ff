// What MME operands look like: transposes and broadcasts are strides, weights are packed once.
// RUN: hpu-opt %s --split-input-file --hpu-fuse --hpu-layout --hpu-tile --hpu-memory --hpu-schedule --hpu-verify-schedule | FileCheck %s

// k transposed is read with its strides exchanged.
// CHECK: sched.mme @{{.*}} gemm a <0 + 0 : f32, sizes = [2, 8, 16], strides = [128, 16, 1]> b <1 + 0 : f32, sizes = [2, 16, 8], strides = [128, 1, 16]> c <2 + 0 : f32, sizes = [2, 8, 8], strides = [64, 8, 1]>
func.func @main(%q: tensor<2x8x16xf32>, %k: tensor<2x8x16xf32>) -> tensor<2x8x8xf32> {
  %0 = hpu.transpose %k {perm = array<i64: 0, 2, 1>} : (tensor<2x8x16xf32>) -> tensor<2x16x8xf32>
  %1 = hpu.matmul %q, %0 : (tensor<2x8x16xf32>, tensor<2x16x8xf32>) -> tensor<2x8x8xf32>
  return %1 : tensor<2x8x8xf32>
}

// -----

// One matrix for the whole batch has stride 0 along it.
// CHECK: sched.mme @{{.*}} gemm a <0 + 0 : f32, sizes = [2, 8, 16], strides = [128, 16, 1]> b <1 + 0 : f32, sizes = [2, 16, 4], strides = [0, 4, 1]>
func.func @main(%x: tensor<2x8x16xf32>, %w: tensor<16x4xf32>) -> tensor<2x8x4xf32> {
  %0 = hpu.matmul %x, %w : (tensor<2x8x16xf32>, tensor<16x4xf32>) -> tensor<2x8x4xf32>
  return %0 : tensor<2x8x4xf32>
}

// -----

// Weights that two ops share are in the recipe once; a transpose of a constant is packed in.
// CHECK: sched.constant 2 + 0 view 0 [16, 8] [1, 16] packed
// CHECK-NOT: sched.constant
// CHECK: sched.queue
func.func @main(%x: tensor<8x16xf32>) -> tensor<8x8xf32> {
  %c = hpu.constant dense<0.5> : tensor<8x16xf32> : tensor<8x16xf32>
  %w = hpu.transpose %c {perm = array<i64: 1, 0>} : (tensor<8x16xf32>) -> tensor<16x8xf32>
  %y = hpu.relu %x : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %0 = hpu.matmul %x, %w : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %1 = hpu.matmul %y, %w : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %2 = hpu.add %0, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}
