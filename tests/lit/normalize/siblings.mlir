// RUN: hpu-opt %s --hpu-merge-siblings | FileCheck %s

// Q, K and V: one product, one bias, three views. The second weight is stored transposed, V has no bias.
// CHECK-LABEL: func.func @qkv(
// CHECK: %[[W:.*]] = hpu.constant dense<{{\[\[}}1.000000e+00, 2.000000e+00, 3.000000e+00, 5.000000e+00, 9.000000e+00], [1.000000e+00, 2.000000e+00, 4.000000e+00, 6.000000e+00, 9.000000e+00]]> : tensor<2x5xf32>
// CHECK: %[[M:.*]] = hpu.matmul %arg0, %[[W]] : (tensor<8x2xf32>, tensor<2x5xf32>) -> tensor<8x5xf32>
// CHECK: %[[B:.*]] = hpu.constant dense<[5.000000e-01, 5.000000e-01, 1.000000e+00, 2.000000e+00, 0.000000e+00]> : tensor<5xf32>
// CHECK: %[[A:.*]] = hpu.add %[[M]], %[[B]]
// CHECK-DAG: hpu.slice %[[A]] {sizes = array<i64: 8, 2>, starts = array<i64: 0, 0>
// CHECK-DAG: hpu.slice %[[A]] {sizes = array<i64: 8, 2>, starts = array<i64: 0, 2>
// CHECK-DAG: hpu.slice %[[A]] {sizes = array<i64: 8, 1>, starts = array<i64: 0, 4>
// CHECK-NOT: hpu.matmul
func.func @qkv(%x: tensor<8x2xf32>) -> (tensor<8x2xf32>, tensor<8x2xf32>, tensor<8x1xf32>) {
  %wq = hpu.constant dense<[[1.0, 2.0], [1.0, 2.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %wk = hpu.constant dense<[[3.0, 4.0], [5.0, 6.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %wv = hpu.constant dense<9.0> : tensor<2x1xf32> : tensor<2x1xf32>
  %bq = hpu.constant dense<0.5> : tensor<2xf32> : tensor<2xf32>
  %bk = hpu.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
  %t = hpu.transpose %wk {perm = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %0 = hpu.matmul %x, %wq : (tensor<8x2xf32>, tensor<2x2xf32>) -> tensor<8x2xf32>
  %1 = hpu.add %0, %bq : (tensor<8x2xf32>, tensor<2xf32>) -> tensor<8x2xf32>
  %2 = hpu.matmul %x, %t : (tensor<8x2xf32>, tensor<2x2xf32>) -> tensor<8x2xf32>
  %3 = hpu.add %2, %bk : (tensor<8x2xf32>, tensor<2xf32>) -> tensor<8x2xf32>
  %4 = hpu.matmul %x, %wv : (tensor<8x2xf32>, tensor<2x1xf32>) -> tensor<8x1xf32>
  return %1, %3, %4 : tensor<8x2xf32>, tensor<8x2xf32>, tensor<8x1xf32>
}

// Large products whose consumers are computed behind them: reading the merged result back costs more.
// CHECK-LABEL: func.func @gated(
// CHECK-COUNT-2: hpu.matmul
func.func @gated(%x: tensor<4096x512xf32>) -> tensor<4096x2048xf32> {
  %wg = hpu.constant dense<1.0> : tensor<512x2048xf32> : tensor<512x2048xf32>
  %wu = hpu.constant dense<2.0> : tensor<512x2048xf32> : tensor<512x2048xf32>
  %0 = hpu.matmul %x, %wg : (tensor<4096x512xf32>, tensor<512x2048xf32>) -> tensor<4096x2048xf32>
  %1 = hpu.silu %0 : (tensor<4096x2048xf32>) -> tensor<4096x2048xf32>
  %2 = hpu.matmul %x, %wu : (tensor<4096x512xf32>, tensor<512x2048xf32>) -> tensor<4096x2048xf32>
  %3 = hpu.mul %1, %2 : (tensor<4096x2048xf32>, tensor<4096x2048xf32>) -> tensor<4096x2048xf32>
  return %3 : tensor<4096x2048xf32>
}
