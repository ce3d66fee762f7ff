// RUN: hpu-opt %s --hpu-simplify | FileCheck %s

// CHECK-LABEL: func.func @neutral(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>
// CHECK-NEXT: return %[[X]]
func.func @neutral(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = hpu.constant dense<0.0> : tensor<f32> : tensor<f32>
  %one = hpu.constant dense<1.0> : tensor<f32> : tensor<f32>
  %ones = hpu.constant dense<1.0> : tensor<4xf32> : tensor<4xf32>
  %0 = hpu.add %zero, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = hpu.mul %0, %ones : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = hpu.sub %1, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = hpu.div %2, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}

// The constant gives the result its shape, and 0 - x is not x.
// CHECK-LABEL: func.func @notNeutral
// CHECK: hpu.add
// CHECK: hpu.sub
func.func @notNeutral(%x: tensor<4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>) {
  %zeros = hpu.constant dense<0.0> : tensor<2x1xf32> : tensor<2x1xf32>
  %zero = hpu.constant dense<0.0> : tensor<f32> : tensor<f32>
  %0 = hpu.add %x, %zeros : (tensor<4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %1 = hpu.sub %zero, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<2x4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @pow(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>
// CHECK: %[[SQUARE:.*]] = hpu.mul %[[X]], %[[X]]
// CHECK: %[[S:.*]] = hpu.mul %[[X]], %[[X]]
// CHECK: %[[CUBE:.*]] = hpu.mul %[[S]], %[[X]]
// CHECK: %[[POW:.*]] = hpu.pow %[[X]]
// CHECK: return %[[SQUARE]], %[[CUBE]], %[[POW]]
func.func @pow(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %two = hpu.constant dense<2.0> : tensor<f32> : tensor<f32>
  %three = hpu.constant dense<3.0> : tensor<f32> : tensor<f32>
  %half = hpu.constant dense<0.5> : tensor<f32> : tensor<f32>
  %0 = hpu.pow %x, %two : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = hpu.pow %x, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = hpu.pow %x, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// A division by a power of two is a product with its reciprocal, unless that could leave f16's normal numbers. By
// another number it is none: 4.5 / 0.6 is 7.5, which rounds to 8, and 4.5 * (1 / 0.6) is less.
// CHECK-LABEL: func.func @div(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>
// CHECK-DAG: %[[TINY:.*]] = hpu.constant dense<9.99999997E-7>
// CHECK-DAG: %[[THREE:.*]] = hpu.constant dense<3.000000e+00>
// CHECK-DAG: %[[EIGHTH:.*]] = hpu.constant dense<1.250000e-01>
// CHECK-DAG: hpu.mul %[[X]], %[[EIGHTH]]
// CHECK-DAG: hpu.div %[[X]], %[[THREE]]
// CHECK-DAG: hpu.div %[[X]], %[[TINY]]
func.func @div(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %eight = hpu.constant dense<8.0> : tensor<f32> : tensor<f32>
  %three = hpu.constant dense<3.0> : tensor<f32> : tensor<f32>
  %0 = hpu.div %x, %eight : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = hpu.div %x, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %tiny = hpu.constant dense<1.0e-6> : tensor<f32> : tensor<f32>
  %2 = hpu.div %x, %tiny : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Integer division truncates and is left alone.
// CHECK-LABEL: func.func @integerDiv
// CHECK: hpu.div
func.func @integerDiv(%x: tensor<4xi64>) -> tensor<4xi64> {
  %eight = hpu.constant dense<8> : tensor<i64> : tensor<i64>
  %0 = hpu.div %x, %eight : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// CHECK-LABEL: func.func @rsqrt(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>
// CHECK-NEXT: %[[R:.*]] = hpu.rsqrt %[[X]]
// CHECK-NEXT: return %[[R]]
func.func @rsqrt(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = hpu.constant dense<1.0> : tensor<f32> : tensor<f32>
  %0 = hpu.sqrt %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = hpu.div %one, %0 : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @repeated(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>, %[[M:.*]]: tensor<4xi1>
// CHECK-NEXT: %[[R:.*]] = hpu.relu %[[X]]
// CHECK-NEXT: return %[[R]], %[[X]], %[[X]]
func.func @repeated(%x: tensor<4xf32>, %m: tensor<4xi1>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = hpu.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = hpu.relu %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = hpu.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  %3 = hpu.neg %2 : (tensor<4xf32>) -> tensor<4xf32>
  %true = hpu.constant dense<true> : tensor<i1> : tensor<i1>
  %4 = hpu.where %true, %x, %1 : (tensor<i1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1, %3, %4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
