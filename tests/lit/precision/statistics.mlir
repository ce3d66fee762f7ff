// SPDX-License-Identifier: Apache-2.0
// RUN: hpu-opt %s --hpu-precision="to=f16" --hpu-verify-precision="to=f16" | FileCheck %s
// RUN: hpu-opt %s --hpu-precision="to=bf16" --hpu-verify-precision="to=bf16" | FileCheck %s --check-prefix=BF16

// A norm by root mean square: the square, the mean and the factor are f32, the factor is applied in f32, and the result
// is rounded once.
// CHECK-LABEL: func.func @rms(
// CHECK: %[[X:.*]] = hpu.relu {{.*}} -> tensor<2x4xf16>
// CHECK: %[[W:.*]] = hpu.cast %[[X]] {to = f32}
// CHECK: %[[S:.*]] = hpu.mul %[[W]], %[[W]] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
// CHECK: %[[M:.*]] = hpu.reduce_mean %[[S]] {{.*}} -> tensor<2x1xf32>
// CHECK: %[[R:.*]] = hpu.rsqrt %{{.*}} -> tensor<2x1xf32>
// CHECK: %[[V:.*]] = hpu.cast %[[X]] {to = f32}
// CHECK: %[[N:.*]] = hpu.mul %[[V]], %[[R]] : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
// CHECK: hpu.cast %[[N]] {to = f16}
// CHECK: hpu.matmul {{.*}} -> tensor<2x4xf16>
// BF16-LABEL: func.func @rms(
// BF16: hpu.mul {{.*}} -> tensor<2x4xf32>
// BF16: hpu.rsqrt {{.*}} -> tensor<2x1xf32>
func.func @rms(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %w = hpu.constant dense<0.5> : tensor<4x4xf32> : tensor<4x4xf32>
  %e = hpu.constant dense<1.0e-5> : tensor<f32> : tensor<f32>
  %0 = hpu.relu %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = hpu.mul %0, %0 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = hpu.reduce_mean %1 {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %3 = hpu.add %2, %e : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %4 = hpu.rsqrt %3 : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %5 = hpu.mul %0, %4 : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %6 = hpu.matmul %5, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  return %6 : tensor<2x4xf32>
}

// A sum reads what is there and stores f32.
// CHECK-LABEL: func.func @pool(
// CHECK: hpu.reduce_mean %{{.*}} {axes = array<i64: 1>, to = f32} : (tensor<2x4xf16>) -> tensor<2x1xf32>
// BF16-LABEL: func.func @pool(
// BF16: hpu.reduce_mean %{{.*}} {axes = array<i64: 1>, to = f32} : (tensor<2x4xbf16>) -> tensor<2x1xf32>
func.func @pool(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %w = hpu.constant dense<0.5> : tensor<1x4xf32> : tensor<1x4xf32>
  %0 = hpu.relu %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = hpu.reduce_mean %0 {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %2 = hpu.matmul %1, %w : (tensor<2x1xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}

// A cube is a power too.
// CHECK-LABEL: func.func @cube(
// CHECK: hpu.mul {{.*}} -> tensor<2x4xf32>
// CHECK: hpu.mul {{.*}} -> tensor<2x4xf32>
// CHECK-NOT: hpu.mul {{.*}} -> tensor<2x4xf16>
func.func @cube(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %w = hpu.constant dense<0.5> : tensor<4x4xf32> : tensor<4x4xf32>
  %0 = hpu.mul %x, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = hpu.mul %0, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = hpu.matmul %1, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}

// Products of integers are not touched, nor what leads to integers.
// CHECK-LABEL: func.func @exact(
// CHECK: hpu.matmul {{.*}} {exact = true} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
// CHECK: hpu.mul %arg2, %arg3 : (tensor<f32>, tensor<f32>) -> tensor<f32>
// CHECK: hpu.mul {{.*}} -> tensor<2x4xf32>
// CHECK: hpu.round {{.*}} -> tensor<2x4xf32>
// BF16-LABEL: func.func @exact(
// BF16-NOT: bf16
// BF16: return
func.func @exact(%x: tensor<2x4xi8>, %y: tensor<4x4xi8>, %s: tensor<f32>, %t: tensor<f32>) -> tensor<2x4xi8> {
  %0 = hpu.cast %x {to = f32} : (tensor<2x4xi8>) -> tensor<2x4xf32>
  %1 = hpu.cast %y {to = f32} : (tensor<4x4xi8>) -> tensor<4x4xf32>
  %2 = hpu.matmul %0, %1 {exact = true} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %3 = hpu.mul %s, %t : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %4 = hpu.mul %2, %3 : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %5 = hpu.round %4 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %6 = hpu.cast %5 {to = i8} : (tensor<2x4xf32>) -> tensor<2x4xi8>
  return %6 : tensor<2x4xi8>
}

// A place is split into an index and a weight: both are of the number in f32, whoever else reads it.
// BF16-LABEL: func.func @place(
// BF16: %[[A:.*]] = hpu.mul {{.*}} -> tensor<4xf32>
// BF16: %[[L:.*]] = hpu.floor %[[A]] : (tensor<4xf32>) -> tensor<4xf32>
// BF16: %[[U:.*]] = hpu.add %[[L]], {{.*}} -> tensor<4xf32>
// BF16: hpu.sub %[[A]], %[[L]] : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// BF16: hpu.mul {{.*}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// BF16: hpu.cast %[[U]] {to = i32}
func.func @place(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xi32>) {
  %w = hpu.constant dense<0.5> : tensor<4x4xf32> : tensor<4x4xf32>
  %s = hpu.constant dense<8.0> : tensor<f32> : tensor<f32>
  %one = hpu.constant dense<1.0> : tensor<f32> : tensor<f32>
  %0 = hpu.matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = hpu.reduce_max %0 {axes = array<i64: 1>, keepdims = false} : (tensor<4x4xf32>) -> tensor<4xf32>
  %2 = hpu.mul %1, %s : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = hpu.floor %2 : (tensor<4xf32>) -> tensor<4xf32>
  %4 = hpu.add %3, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %5 = hpu.sub %2, %3 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %6 = hpu.mul %4, %5 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %7 = hpu.cast %4 {to = i32} : (tensor<4xf32>) -> tensor<4xi32>
  %8 = hpu.mul %0, %6 : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %9 = hpu.matmul %8, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %9, %7 : tensor<4x4xf32>, tensor<4xi32>
}

// Scores, scale and mask are f32 up to the softmax; the mask is read as the input that it is.
// CHECK-LABEL: func.func @attention(
// CHECK-SAME: %[[M:[a-z0-9]*]]: tensor<4x4xf32>)
// CHECK: %[[P:.*]] = hpu.matmul {{.*}} -> tensor<4x4xf16>
// CHECK: %[[F:.*]] = hpu.cast %[[P]] {to = f32}
// CHECK: %[[S:.*]] = hpu.mul %[[F]], {{.*}} -> tensor<4x4xf32>
// CHECK: hpu.add %[[S]], %[[M]] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: %[[Y:.*]] = hpu.softmax {{.*}} -> tensor<4x4xf32>
// CHECK: %[[N:.*]] = hpu.cast %[[Y]] {to = f16}
// CHECK: hpu.matmul %[[N]], {{.*}} -> tensor<4x4xf16>
func.func @attention(%q: tensor<4x4xf32>, %m: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %s = hpu.constant dense<0.5> : tensor<f32> : tensor<f32>
  %0 = hpu.matmul %q, %q : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = hpu.mul %0, %s : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %2 = hpu.add %1, %m : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = hpu.softmax %2 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = hpu.matmul %3, %q : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %4 : tensor<4x4xf32>
}

// f16 has neither 1e-9 nor 2e6: the ops beside them are f32 at f16, and narrow at bf16.
// CHECK-LABEL: func.func @constants(
// CHECK: hpu.add {{.*}} -> tensor<4x4xf32>
// CHECK: hpu.mul {{.*}} -> tensor<4x4xf32>
// CHECK: hpu.relu {{.*}} -> tensor<4x4xf32>
// BF16-LABEL: func.func @constants(
// BF16: hpu.add {{.*}} -> tensor<4x4xbf16>
func.func @constants(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = hpu.constant dense<1.0e-9> : tensor<f32> : tensor<f32>
  %k = hpu.constant dense<2.0e6> : tensor<f32> : tensor<f32>
  %0 = hpu.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = hpu.add %0, %e : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %2 = hpu.mul %1, %k : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %3 = hpu.relu %2 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = hpu.matmul %3, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %4 : tensor<4x4xf32>
}
