// SPDX-License-Identifier: Apache-2.0
// RUN: hpu-opt %s --hpu-simplify --hpu-skip-masked --hpu-merge-common | FileCheck %s

// Each 128 queries see as many keys as there are up to their last. Each block is cut out of the operands.
// CHECK-LABEL: func.func @causal(
// CHECK: hpu.matmul %{{.*}}, %{{.*}} : (tensor<64x128x64xf32>, tensor<64x64x128xf32>)
// CHECK: hpu.softmax {{.*}} -> tensor<64x128x128xf32>
// CHECK: hpu.matmul %{{.*}}, %{{.*}} : (tensor<64x128x128xf32>, tensor<64x128x64xf32>)
// CHECK: hpu.softmax {{.*}} -> tensor<64x128x256xf32>
// CHECK: hpu.softmax {{.*}} -> tensor<64x128x384xf32>
// CHECK: hpu.matmul %{{.*}}, %arg1
// CHECK: hpu.softmax {{.*}} -> tensor<64x128x512xf32>
// CHECK: hpu.concat {{.*}} {axis = 1 : i64}
func.func @causal(%q: tensor<64x512x64xf32>, %k: tensor<64x64x512xf32>, %v: tensor<64x512x64xf32>) -> tensor<64x512x64xf32> {
  %columns = hpu.range {element = i64, starts = array<i64: 0>, sizes = array<i64: 512>, steps = array<i64: 1>} : () -> tensor<512xi64>
  %rows = hpu.reshape %columns {shape = array<i64: 512, 1>} : (tensor<512xi64>) -> tensor<512x1xi64>
  %hidden = hpu.less %rows, %columns : (tensor<512x1xi64>, tensor<512xi64>) -> tensor<512x512xi1>
  %low = hpu.constant dense<0xFF800000> : tensor<f32> : tensor<f32>
  %zero = hpu.constant dense<0.0> : tensor<f32> : tensor<f32>
  %mask = hpu.where %hidden, %low, %zero : (tensor<512x512xi1>, tensor<f32>, tensor<f32>) -> tensor<512x512xf32>
  %0 = hpu.matmul %q, %k : (tensor<64x512x64xf32>, tensor<64x64x512xf32>) -> tensor<64x512x512xf32>
  %1 = hpu.add %0, %mask : (tensor<64x512x512xf32>, tensor<512x512xf32>) -> tensor<64x512x512xf32>
  %2 = hpu.softmax %1 {axis = 2 : i64} : (tensor<64x512x512xf32>) -> tensor<64x512x512xf32>
  %3 = hpu.matmul %2, %v : (tensor<64x512x512xf32>, tensor<64x512x64xf32>) -> tensor<64x512x64xf32>
  return %3 : tensor<64x512x64xf32>
}

// -10000 hides nothing for sure: scores may be as large.
// CHECK-LABEL: func.func @finite(
// CHECK: hpu.softmax {{.*}} -> tensor<64x512x512xf32>
// CHECK-NOT: hpu.concat
func.func @finite(%q: tensor<64x512x64xf32>, %k: tensor<64x64x512xf32>, %v: tensor<64x512x64xf32>) -> tensor<64x512x64xf32> {
  %columns = hpu.range {element = i64, starts = array<i64: 0>, sizes = array<i64: 512>, steps = array<i64: 1>} : () -> tensor<512xi64>
  %rows = hpu.reshape %columns {shape = array<i64: 512, 1>} : (tensor<512xi64>) -> tensor<512x1xi64>
  %hidden = hpu.less %rows, %columns : (tensor<512x1xi64>, tensor<512xi64>) -> tensor<512x512xi1>
  %low = hpu.constant dense<-1.0e+04> : tensor<f32> : tensor<f32>
  %zero = hpu.constant dense<0.0> : tensor<f32> : tensor<f32>
  %mask = hpu.where %hidden, %low, %zero : (tensor<512x512xi1>, tensor<f32>, tensor<f32>) -> tensor<512x512xf32>
  %0 = hpu.matmul %q, %k : (tensor<64x512x64xf32>, tensor<64x64x512xf32>) -> tensor<64x512x512xf32>
  %1 = hpu.add %0, %mask : (tensor<64x512x512xf32>, tensor<512x512xf32>) -> tensor<64x512x512xf32>
  %2 = hpu.softmax %1 {axis = 2 : i64} : (tensor<64x512x512xf32>) -> tensor<64x512x512xf32>
  %3 = hpu.matmul %2, %v : (tensor<64x512x512xf32>, tensor<64x512x64xf32>) -> tensor<64x512x64xf32>
  return %3 : tensor<64x512x64xf32>
}
