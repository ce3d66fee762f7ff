// RUN: hpu-opt %s --hpu-canonicalise-attention --hpu-merge-common | FileCheck %s

// Scales of both operands, through views, become one behind the product.
// CHECK-LABEL: func.func @both(
// CHECK: %[[T:.*]] = hpu.transpose %arg1
// CHECK: %[[S:.*]] = hpu.matmul %arg0, %[[T]]
// CHECK: %[[F:.*]] = hpu.constant dense<2.500000e-01> : tensor<f32>
// CHECK: %[[M:.*]] = hpu.mul %[[S]], %[[F]]
// CHECK: hpu.softmax %[[M]]
func.func @both(%q: tensor<2x4x8xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
  %c = hpu.constant dense<0.5> : tensor<f32> : tensor<f32>
  %0 = hpu.mul %q, %c : (tensor<2x4x8xf32>, tensor<f32>) -> tensor<2x4x8xf32>
  %1 = hpu.mul %k, %c : (tensor<2x4x8xf32>, tensor<f32>) -> tensor<2x4x8xf32>
  %2 = hpu.transpose %1 {perm = array<i64: 0, 2, 1>} : (tensor<2x4x8xf32>) -> tensor<2x8x4xf32>
  %3 = hpu.matmul %0, %2 : (tensor<2x4x8xf32>, tensor<2x8x4xf32>) -> tensor<2x4x4xf32>
  %4 = hpu.softmax %3 {axis = 2 : i64} : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  %5 = hpu.matmul %4, %v : (tensor<2x4x4xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  return %5 : tensor<2x4x8xf32>
}

// A division and a mask by where: one multiplication, one addition of a mask without heads.
// CHECK-LABEL: func.func @masked(
// CHECK-SAME: %[[C:[^,]*]]: tensor<4x4xi1>
// CHECK: %[[S:.*]] = hpu.matmul
// CHECK: %[[D:.*]] = hpu.mul %[[S]], %{{.*}} : (tensor<2x4x4xf32>, tensor<f32>)
// CHECK: %[[W:.*]] = hpu.where %[[C]], %{{.*}}, %{{.*}} -> tensor<4x4xf32>
// CHECK: %[[A:.*]] = hpu.add %[[D]], %[[W]]
// CHECK: hpu.softmax %[[A]]
func.func @masked(%m: tensor<4x4xi1>, %q: tensor<2x4x8xf32>, %k: tensor<2x8x4xf32>) -> tensor<2x4x4xf32> {
  %c = hpu.constant dense<3.0> : tensor<f32> : tensor<f32>
  %low = hpu.constant dense<0xFF800000> : tensor<f32> : tensor<f32>
  %0 = hpu.matmul %q, %k : (tensor<2x4x8xf32>, tensor<2x8x4xf32>) -> tensor<2x4x4xf32>
  %1 = hpu.div %0, %c : (tensor<2x4x4xf32>, tensor<f32>) -> tensor<2x4x4xf32>
  %2 = hpu.where %m, %1, %low : (tensor<4x4xi1>, tensor<2x4x4xf32>, tensor<f32>) -> tensor<2x4x4xf32>
  %3 = hpu.softmax %2 {axis = 2 : i64} : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  return %3 : tensor<2x4x4xf32>
}

// -10000 does not absorb every score: a fully masked row would change. A product without softmax keeps its
// scale, and so does one whose scaled operand has another reader.
// CHECK-LABEL: func.func @others(
// CHECK: hpu.mul %arg1
// CHECK: %[[S:.*]] = hpu.matmul
// CHECK: hpu.where %arg0, %[[S]]
// CHECK: hpu.div
func.func @others(%m: tensor<4x4xi1>, %q: tensor<2x4x8xf32>, %k: tensor<2x8x4xf32>) -> (tensor<2x4x4xf32>, tensor<2x4x4xf32>) {
  %c = hpu.constant dense<3.0> : tensor<f32> : tensor<f32>
  %low = hpu.constant dense<-1.0e4> : tensor<f32> : tensor<f32>
  %q2 = hpu.mul %q, %c : (tensor<2x4x8xf32>, tensor<f32>) -> tensor<2x4x8xf32>
  %0 = hpu.matmul %q2, %k : (tensor<2x4x8xf32>, tensor<2x8x4xf32>) -> tensor<2x4x4xf32>
  %2 = hpu.where %m, %0, %low : (tensor<4x4xi1>, tensor<2x4x4xf32>, tensor<f32>) -> tensor<2x4x4xf32>
  %3 = hpu.softmax %2 {axis = 2 : i64} : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  %4 = hpu.matmul %q2, %k : (tensor<2x4x8xf32>, tensor<2x8x4xf32>) -> tensor<2x4x4xf32>
  %5 = hpu.div %4, %c : (tensor<2x4x4xf32>, tensor<f32>) -> tensor<2x4x4xf32>
  return %3, %5 : tensor<2x4x4xf32>, tensor<2x4x4xf32>
}

// In f16 the scales stay where they keep the product in range.
// CHECK-LABEL: func.func @halves(
// CHECK: hpu.mul %arg0, %{{.*}} : (tensor<2x4x8xf16>, tensor<f16>)
// CHECK: hpu.mul %arg1, %{{.*}} : (tensor<2x8x4xf16>, tensor<f16>)
// CHECK: %[[S:.*]] = hpu.matmul
// CHECK-NEXT: hpu.softmax %[[S]]
func.func @halves(%q: tensor<2x4x8xf16>, %k: tensor<2x8x4xf16>) -> tensor<2x4x4xf16> {
  %c = hpu.constant dense<0.5> : tensor<f16> : tensor<f16>
  %0 = hpu.mul %q, %c : (tensor<2x4x8xf16>, tensor<f16>) -> tensor<2x4x8xf16>
  %1 = hpu.mul %k, %c : (tensor<2x8x4xf16>, tensor<f16>) -> tensor<2x8x4xf16>
  %2 = hpu.matmul %0, %1 : (tensor<2x4x8xf16>, tensor<2x8x4xf16>) -> tensor<2x4x4xf16>
  %3 = hpu.softmax %2 {axis = 2 : i64} : (tensor<2x4x4xf16>) -> tensor<2x4x4xf16>
  return %3 : tensor<2x4x4xf16>
}
