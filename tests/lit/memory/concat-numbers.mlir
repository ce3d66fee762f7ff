// Numbers that are parts of a concatenation are written where it lies, at any element: they have no strides that would say so.
// RUN: hpu-opt %s --hpu-fuse="optimize=false" --hpu-layout --hpu-tile --hpu-memory --hpu-verify-memory | FileCheck %s

// CHECK-LABEL: func.func @main(
// CHECK: hpu.buffers = array<i64: [[SECTION:[0-9]+]], [[#AT:]]>
// CHECK-NEXT: hpu.tanh
// CHECK: hpu.buffers = array<i64: [[SECTION]], [[#AT+4]]>
// CHECK-NEXT: hpu.exp
func.func @main(%x: tensor<f32>) -> tensor<2xf32> {
  %0 = hpu.tanh %x : (tensor<f32>) -> tensor<f32>
  %1 = hpu.exp %x : (tensor<f32>) -> tensor<f32>
  %2 = hpu.reshape %0 {shape = array<i64: 1>} : (tensor<f32>) -> tensor<1xf32>
  %3 = hpu.reshape %1 {shape = array<i64: 1>} : (tensor<f32>) -> tensor<1xf32>
  %4 = hpu.concat %2, %3 {axis = 0 : i64} : (tensor<1xf32>, tensor<1xf32>) -> tensor<2xf32>
  %5 = hpu.neg %4 : (tensor<2xf32>) -> tensor<2xf32>
  return %5 : tensor<2xf32>
}
