// RUN: hpu-opt %s --hpu-fold-batch-norm --hpu-merge-common --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s

// scale / sqrt(variance + epsilon) = 2, 3; bias - mean * that = 5 - 1*2, 6 - 2*3.
// CHECK-LABEL: func.func @conv(
// CHECK-SAME: %[[X:.*]]: tensor<1x1x2x2xf32>
// CHECK: %[[W:.*]] = hpu.constant dense<{{\[\[\[\[}}2.000000e+00]]], {{\[\[\[}}6.000000e+00]]]]> : tensor<2x1x1x1xf32>
// CHECK: %[[C:.*]] = hpu.conv2d %[[X]], %[[W]] {{.*}} loc(fused["conv", "bn"])
// CHECK: %[[B:.*]] = hpu.constant dense<{{\[\[\[\[}}3.000000e+00]], {{\[\[}}0.000000e+00]]]]> : tensor<1x2x1x1xf32>
// CHECK: %[[R:.*]] = hpu.add %[[C]], %[[B]]
// CHECK-NEXT: return %[[R]]
func.func @conv(%x: tensor<1x1x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %w = hpu.constant dense<[[[[1.0]]], [[[2.0]]]]> : tensor<2x1x1x1xf32> : tensor<2x1x1x1xf32>
  %scale = hpu.constant dense<[4.0, 9.0]> : tensor<2xf32> : tensor<2xf32>
  %bias = hpu.constant dense<[5.0, 6.0]> : tensor<2xf32> : tensor<2xf32>
  %mean = hpu.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
  %var = hpu.constant dense<[3.0, 8.0]> : tensor<2xf32> : tensor<2xf32>
  %0 = hpu.conv2d %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, groups = 1 : i64} : (tensor<1x1x2x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x2x2xf32> loc("conv")
  %1 = hpu.batch_norm %0, %scale, %bias, %mean, %var {epsilon = 1.0 : f64} : (tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32> loc("bn")
  return %1 : tensor<1x2x2x2xf32>
}

// With a bias of the convolution: (10, 20) * (2, 3) + (3, 0).
// CHECK-LABEL: func.func @convWithBias(
// CHECK: %[[C:.*]] = hpu.conv2d
// CHECK: %[[B:.*]] = hpu.constant dense<{{\[\[\[\[}}2.300000e+01]], {{\[\[}}6.000000e+01]]]]> : tensor<1x2x1x1xf32>
// CHECK: hpu.add %[[C]], %[[B]]
// CHECK-NOT: hpu.add
// CHECK-NOT: hpu.mul
// CHECK: return
func.func @convWithBias(%x: tensor<1x1x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %w = hpu.constant dense<[[[[1.0]]], [[[2.0]]]]> : tensor<2x1x1x1xf32> : tensor<2x1x1x1xf32>
  %b = hpu.constant dense<[[[[10.0]], [[20.0]]]]> : tensor<1x2x1x1xf32> : tensor<1x2x1x1xf32>
  %scale = hpu.constant dense<[4.0, 9.0]> : tensor<2xf32> : tensor<2xf32>
  %bias = hpu.constant dense<[5.0, 6.0]> : tensor<2xf32> : tensor<2xf32>
  %mean = hpu.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
  %var = hpu.constant dense<[3.0, 8.0]> : tensor<2xf32> : tensor<2xf32>
  %0 = hpu.conv2d %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, groups = 1 : i64} : (tensor<1x1x2x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x2x2xf32> loc("conv")
  %1 = hpu.add %0, %b : (tensor<1x2x2x2xf32>, tensor<1x2x1x1xf32>) -> tensor<1x2x2x2xf32> loc("conv")
  %2 = hpu.batch_norm %1, %scale, %bias, %mean, %var {epsilon = 1.0 : f64} : (tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32> loc("bn")
  return %2 : tensor<1x2x2x2xf32>
}

// Two groups of a transposed convolution: weights [C, OC/groups, ...] are scaled by group.
// CHECK-LABEL: func.func @convTranspose(
// CHECK: hpu.constant dense<{{\[\[\[\[}}1.000000e+00]], {{\[\[}}2.000000e+00]]], {{\[\[\[}}3.000000e+00]], {{\[\[}}4.000000e+00]]]]> : tensor<2x2x1x1xf32>
// CHECK: hpu.conv_transpose2d
// CHECK-NOT: hpu.mul
// CHECK: return
func.func @convTranspose(%x: tensor<1x2x2x2xf32>) -> tensor<1x4x2x2xf32> {
  %w = hpu.constant dense<1.0> : tensor<2x2x1x1xf32> : tensor<2x2x1x1xf32>
  %s = hpu.constant dense<[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]> : tensor<4x1x1xf32> : tensor<4x1x1xf32>
  %0 = hpu.conv_transpose2d %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, output_padding = array<i64: 0, 0>, groups = 2 : i64} : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x4x2x2xf32>
  %1 = hpu.mul %s, %0 : (tensor<4x1x1xf32>, tensor<1x4x2x2xf32>) -> tensor<1x4x2x2xf32>
  return %1 : tensor<1x4x2x2xf32>
}

// A matmul by a transposed constant keeps the transpose, which is free.
// CHECK-LABEL: func.func @matmul(
// CHECK: %[[W:.*]] = hpu.constant dense<{{\[\[}}2.000000e+00, 4.000000e+00], [1.200000e+01, 1.600000e+01]]> : tensor<2x2xf32>
// CHECK: %[[T:.*]] = hpu.transpose %[[W]]
// CHECK: hpu.matmul %{{.*}}, %[[T]]
// CHECK-NOT: hpu.mul
// CHECK: return
func.func @matmul(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %w = hpu.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %s = hpu.constant dense<[2.0, 4.0]> : tensor<2xf32> : tensor<2xf32>
  %t = hpu.transpose %w {perm = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %0 = hpu.matmul %x, %t : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %1 = hpu.mul %0, %s : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  return %1 : tensor<3x2xf32>
}

// Two users of the convolution: its weights must stay; the norm is a scale and an offset.
// CHECK-LABEL: func.func @shared(
// CHECK: %[[W:.*]] = hpu.constant dense<1.000000e+00> : tensor<2x1x1x1xf32>
// CHECK: %[[C:.*]] = hpu.conv2d %{{.*}}, %[[W]]
// CHECK: %[[S:.*]] = hpu.constant dense<2.000000e+00> : tensor<1x2x1x1xf32>
// CHECK: %[[M:.*]] = hpu.mul %[[C]], %[[S]]
// CHECK: %[[A:.*]] = hpu.add %[[M]]
// CHECK: return %[[A]], %[[C]]
func.func @shared(%x: tensor<1x1x2x2xf32>) -> (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) {
  %w = hpu.constant dense<1.0> : tensor<2x1x1x1xf32> : tensor<2x1x1x1xf32>
  %scale = hpu.constant dense<4.0> : tensor<2xf32> : tensor<2xf32>
  %bias = hpu.constant dense<5.0> : tensor<2xf32> : tensor<2xf32>
  %mean = hpu.constant dense<1.0> : tensor<2xf32> : tensor<2xf32>
  %var = hpu.constant dense<3.0> : tensor<2xf32> : tensor<2xf32>
  %0 = hpu.conv2d %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, groups = 1 : i64} : (tensor<1x1x2x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x2x2xf32>
  %1 = hpu.batch_norm %0, %scale, %bias, %mean, %var {epsilon = 1.0 : f64} : (tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  return %1, %0 : tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>
}

// A factor that differs along another dim stays.
// CHECK-LABEL: func.func @otherDim(
// CHECK: hpu.mul
func.func @otherDim(%x: tensor<1x1x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %w = hpu.constant dense<1.0> : tensor<2x1x1x1xf32> : tensor<2x1x1x1xf32>
  %s = hpu.constant dense<[2.0, 4.0]> : tensor<2xf32> : tensor<2xf32>
  %0 = hpu.conv2d %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, groups = 1 : i64} : (tensor<1x1x2x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x2x2xf32>
  %1 = hpu.mul %0, %s : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  return %1 : tensor<1x2x2x2xf32>
}
