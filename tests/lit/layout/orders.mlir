// Which physical order the results of units get. Logical shapes never change.
// RUN: hpu-opt %s --hpu-fuse --hpu-layout --hpu-verify-layout | FileCheck %s
// RUN: hpu-opt %s --hpu-fuse --hpu-layout="optimize=false" --hpu-verify-layout | FileCheck %s --check-prefix=PLAIN

// Convolutions work channels-last; an image of three channels is read as it is, more channels are brought into order
// once; what is returned is row-major.
// CHECK-LABEL: func.func @convolutions(
// CHECK-SAME: %[[X:.*]]: tensor<1x3x8x8xf32>
// CHECK-NOT: hpu.relayout
// CHECK: %[[A:.*]] = hpu.bundle (%{{.*}} = %[[X]],
// CHECK-SAME: -> tensor<1x16x8x8xf32, #hpu.layout<order = [0, 2, 3, 1]>>
// CHECK: %[[B:.*]] = hpu.bundle (%{{.*}} = %[[A]],
// CHECK-SAME: -> tensor<1x8x8x8xf32> {
// CHECK: return %[[B]]
// PLAIN-LABEL: func.func @convolutions(
// PLAIN-NOT: #hpu.layout
// PLAIN: func.func @channels(
func.func @convolutions(%x: tensor<1x3x8x8xf32>) -> tensor<1x8x8x8xf32> {
  %w = hpu.constant dense<0.5> : tensor<16x3x1x1xf32> : tensor<16x3x1x1xf32>
  %v = hpu.constant dense<0.25> : tensor<8x16x1x1xf32> : tensor<8x16x1x1xf32>
  %0 = hpu.conv2d %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, groups = 1 : i64} : (tensor<1x3x8x8xf32>, tensor<16x3x1x1xf32>) -> tensor<1x16x8x8xf32>
  %1 = hpu.relu %0 : (tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32>
  %2 = hpu.conv2d %1, %v {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, groups = 1 : i64} : (tensor<1x16x8x8xf32>, tensor<8x16x1x1xf32>) -> tensor<1x8x8x8xf32>
  return %2 : tensor<1x8x8x8xf32>
}

// CHECK-LABEL: func.func @channels(
// CHECK-SAME: %[[X:.*]]: tensor<1x16x8x8xf32>
// CHECK: %[[R:.*]] = hpu.relayout %[[X]] : (tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32, #hpu.layout<order = [0, 2, 3, 1]>>
// CHECK: hpu.bundle (%{{.*}} = %[[R]],
func.func @channels(%x: tensor<1x16x8x8xf32>) -> tensor<1x8x8x8xf32> {
  %v = hpu.constant dense<0.25> : tensor<8x16x1x1xf32> : tensor<8x16x1x1xf32>
  %0 = hpu.conv2d %x, %v {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, groups = 1 : i64} : (tensor<1x16x8x8xf32>, tensor<8x16x1x1xf32>) -> tensor<1x8x8x8xf32>
  return %0 : tensor<1x8x8x8xf32>
}

// Elementwise units follow their operands, and so do the constants that they read.
// CHECK-LABEL: func.func @followers(
// CHECK-NEXT: %[[C:.*]] = hpu.constant dense<2.000000e+00> : tensor<1x4x4x4xf32> : tensor<1x4x4x4xf32, #hpu.layout<order = [0, 2, 3, 1]>>
// CHECK: hpu.max_pool2d
// CHECK: hpu.cluster (%{{.*}} = %{{.*}}, %{{.*}} = %[[C]])
// CHECK-SAME: -> tensor<1x4x4x4xf32, #hpu.layout<order = [0, 2, 3, 1]>>
// CHECK-NEXT: hpu.add
func.func @followers(%x: tensor<1x4x8x8xf32>) -> tensor<1x4x2x2xf32> {
  %c = hpu.constant dense<2.0> : tensor<1x4x4x4xf32> : tensor<1x4x4x4xf32>
  %0 = hpu.max_pool2d %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>} : (tensor<1x4x8x8xf32>) -> tensor<1x4x4x4xf32>
  %1 = hpu.slice %0 {starts = array<i64: 0, 0, 0, 0>, sizes = array<i64: 1, 4, 4, 4>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
  %2 = hpu.add %1, %c : (tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
  %3 = hpu.max_pool2d %2 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>} : (tensor<1x4x4x4xf32>) -> tensor<1x4x2x2xf32>
  return %3 : tensor<1x4x2x2xf32>
}

// The product is written in the order that makes the transpose behind it row-major: attention's heads.
// CHECK-LABEL: func.func @heads(
// CHECK: %[[P:.*]] = hpu.bundle
// CHECK-SAME: -> tensor<2x4x8x16xf32, #hpu.layout<order = [0, 2, 1, 3]>>
// CHECK: %[[T:.*]] = hpu.transpose %[[P]]
// CHECK: %[[R:.*]] = hpu.reshape %[[T]]
// CHECK-NOT: hpu.relayout
// CHECK: hpu.bundle (%{{.*}} = %[[R]],
// PLAIN-LABEL: func.func @heads(
// PLAIN: hpu.transpose
// PLAIN: hpu.relayout
// PLAIN: hpu.reshape
func.func @heads(%x: tensor<2x4x8x8xf32>, %v: tensor<2x4x8x16xf32>, %w: tensor<64x64xf32>) -> tensor<2x8x64xf32> {
  %0 = hpu.matmul %x, %v : (tensor<2x4x8x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  %1 = hpu.transpose %0 {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x4x8x16xf32>) -> tensor<2x8x4x16xf32>
  %2 = hpu.reshape %1 {shape = array<i64: 2, 8, 64>} : (tensor<2x8x4x16xf32>) -> tensor<2x8x64xf32>
  %3 = hpu.matmul %2, %w : (tensor<2x8x64xf32>, tensor<64x64xf32>) -> tensor<2x8x64xf32>
  return %3 : tensor<2x8x64xf32>
}

// A transposed operand of a product costs nothing: it is a flag of the MME.
// CHECK-LABEL: func.func @transposedOperand(
// CHECK-NOT: hpu.relayout
// CHECK: return
func.func @transposedOperand(%q: tensor<2x8x16xf32>, %k: tensor<2x8x16xf32>) -> tensor<2x8x8xf32> {
  %0 = hpu.transpose %k {perm = array<i64: 0, 2, 1>} : (tensor<2x8x16xf32>) -> tensor<2x16x8xf32>
  %1 = hpu.matmul %q, %0 : (tensor<2x8x16xf32>, tensor<2x16x8xf32>) -> tensor<2x8x8xf32>
  return %1 : tensor<2x8x8xf32>
}

// The weights of a depthwise convolution lie with all channels of a tap beside each other.
// CHECK-LABEL: func.func @depthwise(
// CHECK: hpu.constant dense<5.000000e-01> : tensor<16x1x3x3xf32> : tensor<16x1x3x3xf32, #hpu.layout<order = [2, 3, 1, 0]>>
func.func @depthwise(%x: tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32> {
  %w = hpu.constant dense<0.5> : tensor<16x1x3x3xf32> : tensor<16x1x3x3xf32>
  %0 = hpu.conv2d %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, groups = 16 : i64} : (tensor<1x16x8x8xf32>, tensor<16x1x3x3xf32>) -> tensor<1x16x8x8xf32>
  return %0 : tensor<1x16x8x8xf32>
}

// What joins tensors of different shapes follows the largest: the gate of a squeeze-and-excitation block is one pixel,
// which any order describes.
// CHECK-LABEL: func.func @gate(
// CHECK: hpu.cluster
// CHECK: hpu.mul
// CHECK-SAME: -> tensor<1x16x8x8xf32, #hpu.layout<order = [0, 2, 3, 1]>>
// CHECK-NOT: hpu.relayout
// CHECK: return
func.func @gate(%x: tensor<1x3x8x8xf32>) -> tensor<1x8x8x8xf32> {
  %w0 = hpu.constant dense<0.5> : tensor<16x3x3x3xf32> : tensor<16x3x3x3xf32>
  %w1 = hpu.constant dense<0.25> : tensor<16x16x1x1xf32> : tensor<16x16x1x1xf32>
  %w2 = hpu.constant dense<0.25> : tensor<8x16x1x1xf32> : tensor<8x16x1x1xf32>
  %0 = hpu.conv2d %x, %w0 {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, groups = 1 : i64} : (tensor<1x3x8x8xf32>, tensor<16x3x3x3xf32>) -> tensor<1x16x8x8xf32>
  %1 = hpu.reduce_mean %0 {axes = array<i64: 2, 3>} : (tensor<1x16x8x8xf32>) -> tensor<1x16x1x1xf32>
  %2 = hpu.conv2d %1, %w1 {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, groups = 1 : i64} : (tensor<1x16x1x1xf32>, tensor<16x16x1x1xf32>) -> tensor<1x16x1x1xf32>
  %3 = hpu.sigmoid %2 : (tensor<1x16x1x1xf32>) -> tensor<1x16x1x1xf32>
  %4 = hpu.mul %3, %0 : (tensor<1x16x1x1xf32>, tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32>
  %5 = hpu.conv2d %4, %w2 {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, groups = 1 : i64} : (tensor<1x16x8x8xf32>, tensor<8x16x1x1xf32>) -> tensor<1x8x8x8xf32>
  return %5 : tensor<1x8x8x8xf32>
}
