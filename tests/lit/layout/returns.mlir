// Outputs are dense, row-major, and each a buffer that a unit writes.
// RUN: hpu-opt %s --hpu-fuse --hpu-layout --hpu-verify-layout | FileCheck %s

// A reshape of a unit's result is that buffer under another shape.
// CHECK-LABEL: func.func @reshaped(
// CHECK: hpu.cluster
// CHECK-NOT: hpu.relayout
// CHECK: return
func.func @reshaped(%x: tensor<4x8xf32>) -> tensor<32xf32> {
  %0 = hpu.relu %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = hpu.reshape %0 {shape = array<i64: 32>} : (tensor<4x8xf32>) -> tensor<32xf32>
  return %1 : tensor<32xf32>
}

// CHECK-LABEL: func.func @transposed(
// CHECK: %[[T:.*]] = hpu.transpose
// CHECK: %[[C:.*]] = hpu.relayout %[[T]]
// CHECK: return %[[C]]
func.func @transposed(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %0 = hpu.relu %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = hpu.transpose %0 {perm = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// CHECK-LABEL: func.func @part(
// CHECK: %[[S:.*]] = hpu.slice
// CHECK: %[[C:.*]] = hpu.relayout %[[S]]
// CHECK: return %[[C]]
func.func @part(%x: tensor<4x8xf32>) -> tensor<2x8xf32> {
  %0 = hpu.relu %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = hpu.slice %0 {starts = array<i64: 0, 0>, sizes = array<i64: 2, 8>, steps = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}

// An argument is not ours to hand out, and one buffer is not two outputs.
// CHECK-LABEL: func.func @argumentAndTwice(
// CHECK-SAME: %[[X:.*]]: tensor<8xf32>
// CHECK-DAG: %[[R:.*]] = hpu.cluster
// CHECK-DAG: %[[A:.*]] = hpu.relayout %[[X]]
// CHECK-DAG: %[[B:.*]] = hpu.relayout %[[R]]
// CHECK: return %[[A]], %[[R]], %[[B]]
func.func @argumentAndTwice(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = hpu.relu %x : (tensor<8xf32>) -> tensor<8xf32>
  return %x, %0, %0 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// Channels-last and row-major are the same bytes when there is one pixel; the type says row-major, as the signature.
// CHECK-LABEL: func.func @onePixel(
// CHECK: %[[C:.*]] = hpu.bundle
// CHECK-SAME: -> tensor<1x8x1x1xf32> {
// CHECK: %[[R:.*]] = hpu.cluster (%{{.*}} = %[[C]])
// CHECK-NOT: hpu.relayout
// CHECK: return %[[C]], %{{.*}} : tensor<1x8x1x1xf32>
func.func @onePixel(%x: tensor<1x3x1x1xf32>) -> (tensor<1x8x1x1xf32>, tensor<1x8x1x1xf32>) {
  %w = hpu.constant dense<0.5> : tensor<8x3x1x1xf32> : tensor<8x3x1x1xf32>
  %0 = hpu.conv2d %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, groups = 1 : i64} : (tensor<1x3x1x1xf32>, tensor<8x3x1x1xf32>) -> tensor<1x8x1x1xf32>
  %1 = hpu.relu %0 : (tensor<1x8x1x1xf32>) -> tensor<1x8x1x1xf32>
  return %0, %1 : tensor<1x8x1x1xf32>, tensor<1x8x1x1xf32>
}

// What is copied to be returned is read as the copy by kernels that only outputs follow: they walk in its order.
// CHECK-LABEL: func.func @readAsReturned(
// CHECK: %[[C:.*]] = hpu.bundle
// CHECK: %[[COPY:.*]] = hpu.relayout %[[C]]
// CHECK: %[[M:.*]] = hpu.cluster ({{.*}} = %[[COPY]])
// CHECK-NOT: hpu.relayout
// CHECK: return %[[COPY]], %[[M]]
func.func @readAsReturned(%x: tensor<1x3x4x4xf32>, %m: tensor<1x8x4x4xf32>) -> (tensor<1x8x4x4xf32>, tensor<1x8x4x4xf32>) {
  %w = hpu.constant dense<0.5> : tensor<8x3x1x1xf32> : tensor<8x3x1x1xf32>
  %0 = hpu.conv2d %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, groups = 1 : i64} : (tensor<1x3x4x4xf32>, tensor<8x3x1x1xf32>) -> tensor<1x8x4x4xf32>
  %1 = hpu.mul %m, %0 : (tensor<1x8x4x4xf32>, tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32>
  return %0, %1 : tensor<1x8x4x4xf32>, tensor<1x8x4x4xf32>
}

// Where a convolution follows, channels stay next to each other.
// CHECK-LABEL: func.func @readByAConvolution(
// CHECK: %[[C:.*]] = hpu.bundle
// CHECK: hpu.cluster (%{{.*}} = %[[C]])
// CHECK-SAME: #hpu.layout<order = [0, 2, 3, 1]>> {
// CHECK: hpu.bundle
// CHECK: return
func.func @readByAConvolution(%x: tensor<1x3x4x4xf32>) -> (tensor<1x8x4x4xf32>, tensor<1x8x4x4xf32>) {
  %w = hpu.constant dense<0.5> : tensor<8x3x1x1xf32> : tensor<8x3x1x1xf32>
  %v = hpu.constant dense<0.5> : tensor<8x8x1x1xf32> : tensor<8x8x1x1xf32>
  %0 = hpu.conv2d %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, groups = 1 : i64} : (tensor<1x3x4x4xf32>, tensor<8x3x1x1xf32>) -> tensor<1x8x4x4xf32>
  %1 = hpu.relu %0 : (tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32>
  %2 = hpu.conv2d %1, %v {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, groups = 1 : i64} : (tensor<1x8x4x4xf32>, tensor<8x8x1x1xf32>) -> tensor<1x8x4x4xf32>
  return %0, %2 : tensor<1x8x4x4xf32>, tensor<1x8x4x4xf32>
}
