// SPDX-License-Identifier: Apache-2.0
// RUN: hpu-opt %s --hpu-split-reductions | FileCheck %s

// CHECK-LABEL: func.func @pool(
// CHECK: %[[P:.*]] = hpu.reduce_mean %{{.*}} {axes = array<i64: 3>} : (tensor<1x96x112x112xf32>) -> tensor<1x96x112x1xf32>
// CHECK: hpu.reduce_mean %[[P]] {axes = array<i64: 2, 3>} : (tensor<1x96x112x1xf32>) -> tensor<1x96x1x1xf32>
func.func @pool(%x: tensor<1x96x112x112xf32>) -> tensor<1x96x1x1xf32> {
  %0 = hpu.reduce_mean %x {axes = array<i64: 2, 3>} : (tensor<1x96x112x112xf32>) -> tensor<1x96x1x1xf32>
  return %0 : tensor<1x96x1x1xf32>
}

// Dims that were dropped are dropped by the second step.
// CHECK-LABEL: func.func @dropped(
// CHECK: %[[P:.*]] = hpu.reduce_max %{{.*}} {axes = array<i64: 2>} : (tensor<4x64x64xf32>) -> tensor<4x64x1xf32>
// CHECK: hpu.reduce_max %[[P]] {axes = array<i64: 1, 2>, keepdims = false} : (tensor<4x64x1xf32>) -> tensor<4xf32>
func.func @dropped(%x: tensor<4x64x64xf32>) -> tensor<4xf32> {
  %0 = hpu.reduce_max %x {axes = array<i64: 1, 2>, keepdims = false} : (tensor<4x64x64xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// The first step's result is f32.
// CHECK-LABEL: func.func @narrow(
// CHECK: %[[P:.*]] = hpu.reduce_sum %{{.*}} {axes = array<i64: 3>, to = f32} : (tensor<1x8x32x32xbf16>) -> tensor<1x8x32x1xf32>
// CHECK: hpu.reduce_sum %[[P]] {axes = array<i64: 2, 3>, to = bf16} : (tensor<1x8x32x1xf32>) -> tensor<1x8x1x1xbf16>
func.func @narrow(%x: tensor<1x8x32x32xbf16>) -> tensor<1x8x1x1xbf16> {
  %0 = hpu.reduce_sum %x {axes = array<i64: 2, 3>} : (tensor<1x8x32x32xbf16>) -> tensor<1x8x1x1xbf16>
  return %0 : tensor<1x8x1x1xbf16>
}

// In any order the axes are the same: the outermost stays for the second step.
// CHECK-LABEL: func.func @any_order(
// CHECK: hpu.reduce_sum %{{.*}} {axes = array<i64: 1, 3>} : (tensor<31x127x1x2xf32>) -> tensor<31x1x1x1xf32>
func.func @any_order(%x: tensor<31x127x1x2xf32>) -> tensor<1x1x1x1xf32> {
  %0 = hpu.reduce_sum %x {axes = array<i64: 3, 2, 1, 0>} : (tensor<31x127x1x2xf32>) -> tensor<1x1x1x1xf32>
  return %0 : tensor<1x1x1x1xf32>
}

// A mean of integers is truncated once.
// CHECK-LABEL: func.func @integers(
// CHECK-COUNT-1: hpu.reduce_mean
// CHECK-NOT: hpu.reduce_mean
// CHECK: return
func.func @integers(%x: tensor<65x33xi64>) -> tensor<1x1xi64> {
  %0 = hpu.reduce_mean %x {axes = array<i64: 0, 1>} : (tensor<65x33xi64>) -> tensor<1x1xi64>
  return %0 : tensor<1x1xi64>
}

// One axis, little to reduce, or results enough for all TPCs: one step.
// CHECK-LABEL: func.func @whole(
// CHECK-COUNT-3: hpu.reduce_sum
// CHECK-NOT: hpu.reduce_sum
func.func @whole(%x: tensor<8x4096xf32>, %y: tensor<8x64x7x7xf32>, %z: tensor<8x2048x16x16xf32>)
    -> (tensor<8x1xf32>, tensor<8x64x1x1xf32>, tensor<8x2048x1x1xf32>) {
  %0 = hpu.reduce_sum %x {axes = array<i64: 1>} : (tensor<8x4096xf32>) -> tensor<8x1xf32>
  %1 = hpu.reduce_sum %y {axes = array<i64: 2, 3>} : (tensor<8x64x7x7xf32>) -> tensor<8x64x1x1xf32>
  %2 = hpu.reduce_sum %z {axes = array<i64: 2, 3>} : (tensor<8x2048x16x16xf32>) -> tensor<8x2048x1x1xf32>
  return %0, %1, %2 : tensor<8x1xf32>, tensor<8x64x1x1xf32>, tensor<8x2048x1x1xf32>
}
