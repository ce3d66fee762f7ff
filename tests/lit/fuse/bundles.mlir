// An MME op takes what can follow it through SRAM: elementwise, or row by row.
// RUN: hpu-opt %s --hpu-fuse --hpu-verify-fused | FileCheck %s
// RUN: hpu-opt %s --hpu-fuse="optimize=false" --hpu-verify-fused | FileCheck %s --check-prefix=ALONE

// CHECK-LABEL: func.func @convBiasRelu(
// CHECK-SAME: %[[X:.*]]: tensor<1x16x8x8xf32>
// CHECK: %[[B:.*]] = hpu.bundle (%[[A0:.*]] = %[[X]], %[[A1:.*]] = %{{.*}}, %[[A2:.*]] = %{{.*}}) :
// CHECK-NEXT: %[[C:.*]] = hpu.conv2d %[[A0]], %[[A1]]
// CHECK-NEXT: %[[S:.*]] = hpu.add %[[C]], %[[A2]]
// CHECK-NEXT: %[[R:.*]] = hpu.relu %[[S]]
// CHECK-NEXT: hpu.yield %[[R]]
// CHECK: return %[[B]]
// ALONE-LABEL: func.func @convBiasRelu(
// ALONE: hpu.bundle
// ALONE-NEXT: hpu.conv2d
// ALONE-NEXT: hpu.yield
// ALONE: hpu.cluster
// ALONE-NEXT: hpu.add
// ALONE-NEXT: hpu.yield
// ALONE: hpu.cluster
// ALONE-NEXT: hpu.relu
// ALONE-NEXT: hpu.yield
func.func @convBiasRelu(%x: tensor<1x16x8x8xf32>) -> tensor<1x32x8x8xf32> {
  %w = hpu.constant dense<0.5> : tensor<32x16x1x1xf32> : tensor<32x16x1x1xf32>
  %b = hpu.constant dense<1.0> : tensor<32x1x1xf32> : tensor<32x1x1xf32>
  %0 = hpu.conv2d %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, groups = 1 : i64} : (tensor<1x16x8x8xf32>, tensor<32x16x1x1xf32>) -> tensor<1x32x8x8xf32>
  %1 = hpu.add %0, %b : (tensor<1x32x8x8xf32>, tensor<32x1x1xf32>) -> tensor<1x32x8x8xf32>
  %2 = hpu.relu %1 : (tensor<1x32x8x8xf32>) -> tensor<1x32x8x8xf32>
  return %2 : tensor<1x32x8x8xf32>
}

// The residual comes from outside; the sum and its activation ride along.
// CHECK-LABEL: func.func @residual(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[W:.*]]: tensor<8x8xf32>
// CHECK-NEXT: hpu.bundle (%[[A0:.*]] = %[[X]], %[[A1:.*]] = %[[W]]) :
// CHECK-NEXT: %[[P:.*]] = hpu.matmul %[[A0]], %[[A1]]
// CHECK-NEXT: %[[S:.*]] = hpu.add %[[P]], %[[A0]]
// CHECK-NEXT: %[[R:.*]] = hpu.relu %[[S]]
// CHECK-NEXT: hpu.yield %[[R]]
func.func @residual(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %0 = hpu.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = hpu.add %0, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = hpu.relu %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// A value in the middle that somebody else reads is one more result; the last op's comes first.
// CHECK-LABEL: func.func @escapes(
// CHECK: %[[B:.*]]:2 = hpu.bundle
// CHECK-NEXT: %[[P:.*]] = hpu.matmul
// CHECK-NEXT: %[[T:.*]] = hpu.tanh %[[P]]
// CHECK-NEXT: %[[R:.*]] = hpu.relu %[[T]]
// CHECK-NEXT: hpu.yield %[[R]], %[[T]]
// CHECK: return %[[B]]#0, %[[B]]#1
func.func @escapes(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = hpu.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = hpu.tanh %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = hpu.relu %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// The MME's own result has to stay in SRAM: when it is needed elsewhere too, the MME op stays alone.
// CHECK-LABEL: func.func @productUsedTwice(
// CHECK: %[[P:.*]] = hpu.bundle
// CHECK-NEXT: hpu.matmul
// CHECK-NEXT: hpu.yield
// CHECK: %[[R:.*]] = hpu.cluster (%{{.*}} = %[[P]])
// CHECK-NEXT: hpu.relu
// CHECK: return %[[R]], %[[P]]
func.func @productUsedTwice(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = hpu.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = hpu.relu %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1, %0 : tensor<4x8xf32>, tensor<4x8xf32>
}

// Two readers that both can join do.
// CHECK-LABEL: func.func @productReadTwiceInside(
// CHECK: hpu.bundle
// CHECK-NEXT: %[[P:.*]] = hpu.matmul
// CHECK-NEXT: %[[S:.*]] = hpu.sigmoid %[[P]]
// CHECK-NEXT: %[[M:.*]] = hpu.mul %[[P]], %[[S]]
// CHECK-NEXT: hpu.yield %[[M]]
// CHECK-NOT: hpu.cluster
// CHECK: return
func.func @productReadTwiceInside(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %0 = hpu.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = hpu.sigmoid %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = hpu.mul %0, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// A view of the product is read from HBM, so nothing rides along.
// CHECK-LABEL: func.func @transposedProduct(
// CHECK: hpu.bundle
// CHECK-NEXT: hpu.matmul
// CHECK-NEXT: hpu.yield
// CHECK: hpu.transpose
// CHECK: hpu.cluster
// CHECK-NEXT: hpu.relu
func.func @transposedProduct(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<6x4xf32> {
  %0 = hpu.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %1 = hpu.transpose %0 {perm = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %2 = hpu.relu %1 : (tensor<6x4xf32>) -> tensor<6x4xf32>
  return %2 : tensor<6x4xf32>
}

// A depthwise convolution is a TPC op and takes its followers into its kernel.
// CHECK-LABEL: func.func @depthwise(
// CHECK-NOT: hpu.bundle
// CHECK: hpu.cluster
// CHECK-NEXT: hpu.conv2d
// CHECK-NEXT: hpu.relu
// CHECK-NEXT: hpu.yield
func.func @depthwise(%x: tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32> {
  %w = hpu.constant dense<0.5> : tensor<16x1x3x3xf32> : tensor<16x1x3x3xf32>
  %0 = hpu.conv2d %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, groups = 16 : i64} : (tensor<1x16x8x8xf32>, tensor<16x1x3x3xf32>) -> tensor<1x16x8x8xf32>
  %1 = hpu.relu %0 : (tensor<1x16x8x8xf32>) -> tensor<1x16x8x8xf32>
  return %1 : tensor<1x16x8x8xf32>
}

// A softmax over the columns of a product keeps its rows whole, and rows are never cut: it follows slice by slice.
// CHECK-LABEL: func.func @scores(
// CHECK: hpu.bundle
// CHECK-NEXT: hpu.matmul
// CHECK-NEXT: hpu.mul
// CHECK-NEXT: hpu.softmax
// CHECK-NEXT: hpu.yield
// CHECK-NOT: hpu.cluster
// CHECK: return
func.func @scores(%q: tensor<2x4x16x8xf32>, %k: tensor<2x4x8x32xf32>, %s: tensor<f32>) -> tensor<2x4x16x32xf32> {
  %0 = hpu.matmul %q, %k : (tensor<2x4x16x8xf32>, tensor<2x4x8x32xf32>) -> tensor<2x4x16x32xf32>
  %1 = hpu.mul %0, %s : (tensor<2x4x16x32xf32>, tensor<f32>) -> tensor<2x4x16x32xf32>
  %2 = hpu.softmax %1 {axis = 3 : i64} : (tensor<2x4x16x32xf32>) -> tensor<2x4x16x32xf32>
  return %2 : tensor<2x4x16x32xf32>
}

// The groups of a convolution are computed one by one: a softmax over all channels needs all of them at a time.
// CHECK-LABEL: func.func @grouped(
// CHECK: hpu.bundle
// CHECK-NEXT: hpu.conv2d
// CHECK-NEXT: hpu.yield
// CHECK: hpu.cluster
// CHECK-NEXT: hpu.log_softmax
func.func @grouped(%x: tensor<1x8x8x8xf32>, %w: tensor<8x4x3x3xf32>) -> tensor<1x8x8x8xf32> {
  %0 = hpu.conv2d %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, groups = 2 : i64} : (tensor<1x8x8x8xf32>, tensor<8x4x3x3xf32>) -> tensor<1x8x8x8xf32>
  %1 = hpu.log_softmax %0 {axis = 1 : i64} : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  return %1 : tensor<1x8x8x8xf32>
}

// One over the rows would need all of them at a time.
// CHECK-LABEL: func.func @columns(
// CHECK: hpu.bundle
// CHECK-NEXT: hpu.matmul
// CHECK-NEXT: hpu.yield
// CHECK: hpu.cluster
// CHECK-NEXT: hpu.softmax
func.func @columns(%q: tensor<16x8xf32>, %k: tensor<8x32xf32>) -> tensor<16x32xf32> {
  %0 = hpu.matmul %q, %k : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
  %1 = hpu.softmax %0 {axis = 0 : i64} : (tensor<16x32xf32>) -> tensor<16x32xf32>
  return %1 : tensor<16x32xf32>
}
