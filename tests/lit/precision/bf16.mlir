// RUN: hpu-opt %s --hpu-precision --hpu-verify-precision | FileCheck %s

// The MME reads bf16; the last op before the output stays f32, since the output is f32 anyway.
// CHECK-LABEL: func.func @linear(
// CHECK-SAME: %[[X:.*]]: tensor<2x4xf32>) -> tensor<2x3xf32>
// CHECK-DAG: %[[C:.*]] = hpu.cast %[[X]] {to = bf16} : (tensor<2x4xf32>) -> tensor<2x4xbf16>
// CHECK-DAG: %[[W:.*]] = hpu.constant dense<5.000000e-01> : tensor<4x3xbf16>
// CHECK-DAG: %[[B:.*]] = hpu.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<3xf32>
// CHECK: %[[M:.*]] = hpu.matmul %[[C]], %[[W]] : (tensor<2x4xbf16>, tensor<4x3xbf16>) -> tensor<2x3xbf16>
// CHECK: %[[F:.*]] = hpu.cast %[[M]] {to = f32}
// CHECK: %[[A:.*]] = hpu.add %[[F]], %[[B]] : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// CHECK: return %[[A]]
func.func @linear(%x: tensor<2x4xf32>) -> tensor<2x3xf32> {
  %w = hpu.constant dense<0.5> : tensor<4x3xf32> : tensor<4x3xf32>
  %b = hpu.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32> : tensor<3xf32>
  %0 = hpu.matmul %x, %w : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %1 = hpu.add %0, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// Inside, TPC ops are bf16 too; an MME result leaves through a cast, views are looked through.
// CHECK-LABEL: func.func @chain(
// CHECK-DAG: hpu.relu %{{.*}} : (tensor<2x4xbf16>) -> tensor<2x4xbf16>
// CHECK-DAG: hpu.transpose %{{.*}} : (tensor<4x4xbf16>) -> tensor<4x4xbf16>
// CHECK: %[[M:.*]] = hpu.matmul {{.*}} -> tensor<2x4xbf16>
// CHECK: %[[R:.*]] = hpu.reshape %[[M]] {{.*}} -> tensor<8xbf16>
// CHECK: %[[F:.*]] = hpu.cast %[[R]] {to = f32}
// CHECK: return %[[F]]
func.func @chain(%x: tensor<2x4xf32>) -> tensor<8xf32> {
  %w = hpu.constant dense<0.5> : tensor<4x4xf32> : tensor<4x4xf32>
  %t = hpu.transpose %w {perm = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %0 = hpu.relu %x : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = hpu.matmul %0, %t : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %2 = hpu.reshape %1 {shape = array<i64: 8>} : (tensor<2x4xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}

// RNE: 1 + 2^-8 is a tie and goes to even; the mask value stays finite; infinity stays infinite.
// CHECK-LABEL: func.func @constants(
// CHECK: hpu.constant dense<[1.000000e+00, -3.389530e+38, 0xFF80, 1.015630e+00]> : tensor<4xbf16>
func.func @constants(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = hpu.constant dense<[1.00390625, -3.40282347E+38, 0xFF800000, 1.01171875]> : tensor<4xf32> : tensor<4xf32>
  %0 = hpu.add %x, %c : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = hpu.relu %0 : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// Integers and booleans are not touched; a where on a mask is f32, since a softmax is behind it.
// CHECK-LABEL: func.func @mask(
// CHECK-SAME: %[[I:.*]]: tensor<4xi64>
// CHECK: hpu.less %[[I]], %{{.*}} : (tensor<4xi64>, tensor<i64>) -> tensor<4xi1>
// CHECK: hpu.where {{.*}} : (tensor<4xi1>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
func.func @mask(%i: tensor<4xi64>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %k = hpu.constant dense<2> : tensor<i64> : tensor<i64>
  %m = hpu.constant dense<-1.0e+9> : tensor<f32> : tensor<f32>
  %0 = hpu.less %i, %k : (tensor<4xi64>, tensor<i64>) -> tensor<4xi1>
  %1 = hpu.where %0, %x, %m : (tensor<4xi1>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = hpu.softmax %1 {axis = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// Positions stay f32 up to the op that joins them with bf16: 257 is not a bf16 number.
// CHECK-LABEL: func.func @positions(
// CHECK: %[[P:.*]] = hpu.cast %{{.*}} {to = f32} : (tensor<4xi64>) -> tensor<4xf32>
// CHECK: %[[A:.*]] = hpu.mul %[[P]], %{{.*}} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
// CHECK: %[[S:.*]] = hpu.sin %[[A]] : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: %[[B:.*]] = hpu.cast %[[S]] {to = bf16}
// CHECK: hpu.mul %{{.*}}, %[[B]] : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xbf16>
func.func @positions(%i: tensor<4xi64>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %k = hpu.constant dense<0.1> : tensor<f32> : tensor<f32>
  %0 = hpu.cast %i {to = f32} : (tensor<4xi64>) -> tensor<4xf32>
  %1 = hpu.mul %0, %k : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = hpu.sin %1 : (tensor<4xf32>) -> tensor<4xf32>
  %y = hpu.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %3 = hpu.mul %y, %2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = hpu.relu %3 : (tensor<4xf32>) -> tensor<4xf32>
  return %4 : tensor<4xf32>
}

// A table is stored in bf16; its integer indices stay.
// CHECK-LABEL: func.func @embedding(
// CHECK: hpu.gather {{.*}} : (tensor<3x2xbf16>, tensor<4xi64>) -> tensor<4x2xbf16>
func.func @embedding(%i: tensor<4xi64>) -> tensor<4x2xf32> {
  %t = hpu.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32> : tensor<3x2xf32>
  %w = hpu.constant dense<1.0> : tensor<2x2xf32> : tensor<2x2xf32>
  %0 = hpu.gather %t, %i {axis = 0 : i64} : (tensor<3x2xf32>, tensor<4xi64>) -> tensor<4x2xf32>
  %1 = hpu.matmul %0, %w : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  return %1 : tensor<4x2xf32>
}

// A bit cast reads and makes the f32 that the model says, and what it makes is kept until something narrow joins.
// CHECK-LABEL: func.func @bits(
// CHECK: %[[M:.*]] = hpu.matmul {{.*}} -> tensor<4x4xbf16>
// CHECK: %[[F:.*]] = hpu.cast %[[M]] {to = f32}
// CHECK: %[[I:.*]] = hpu.bitcast %[[F]] {to = i32} : (tensor<4x4xf32>) -> tensor<4x4xi32>
// CHECK: %[[B:.*]] = hpu.bitcast %[[I]] {to = f32} : (tensor<4x4xi32>) -> tensor<4x4xf32>
// CHECK: hpu.relu %[[B]] : (tensor<4x4xf32>) -> tensor<4x4xf32>
func.func @bits(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xi32>, tensor<4x4xf32>) {
  %0 = hpu.matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = hpu.bitcast %0 {to = i32} : (tensor<4x4xf32>) -> tensor<4x4xi32>
  %2 = hpu.bitcast %1 {to = f32} : (tensor<4x4xi32>) -> tensor<4x4xf32>
  %3 = hpu.relu %2 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = hpu.matmul %3, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1, %4 : tensor<4x4xi32>, tensor<4x4xf32>
}
