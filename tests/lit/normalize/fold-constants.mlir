// RUN: hpu-opt %s --hpu-simplify | FileCheck %s

// CHECK-LABEL: func.func @elementwise
// CHECK: hpu.constant dense<[4.000000e+00, 6.000000e+00]> : tensor<2xf32>
// CHECK-NOT: hpu.add
func.func @elementwise() -> tensor<2xf32> {
  %a = hpu.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
  %b = hpu.constant dense<[3.0, 4.0]> : tensor<2xf32> : tensor<2xf32>
  %0 = hpu.add %a, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// A chain of shape arithmetic folds to its end.
// CHECK-LABEL: func.func @shapes
// CHECK: hpu.constant dense<[1, 192]> : tensor<2xi64>
// CHECK-NOT: hpu.where
func.func @shapes() -> tensor<2xi64> {
  %target = hpu.constant dense<[1, -1]> : tensor<2xi64> : tensor<2xi64>
  %actual = hpu.constant dense<[7, 192]> : tensor<2xi64> : tensor<2xi64>
  %minus = hpu.constant dense<-1> : tensor<i64> : tensor<i64>
  %keep = hpu.equal %target, %minus : (tensor<2xi64>, tensor<i64>) -> tensor<2xi1>
  %0 = hpu.where %keep, %actual, %target : (tensor<2xi1>, tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
  return %0 : tensor<2xi64>
}

// A reshape renames the bytes; a small transpose is folded; a large one stays for the layout phase.
// CHECK-LABEL: func.func @views
// CHECK: hpu.constant dense<{{\[\[}}1.000000e+00, 3.000000e+00], [2.000000e+00, 4.000000e+00]]> : tensor<2x2xf32>
// CHECK: %[[BIG:.*]] = hpu.constant dense<1.000000e+00> : tensor<512x64xf32>
// CHECK: hpu.transpose %[[BIG]]
func.func @views(%x: tensor<4x512xf32>) -> (tensor<2x2xf32>, tensor<64x512xf32>) {
  %a = hpu.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32> : tensor<4xf32>
  %0 = hpu.reshape %a {shape = array<i64: 2, 2>} : (tensor<4xf32>) -> tensor<2x2xf32>
  %1 = hpu.transpose %0 {perm = array<i64: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %big = hpu.constant dense<1.0> : tensor<512x64xf32> : tensor<512x64xf32>
  %2 = hpu.transpose %big {perm = array<i64: 1, 0>} : (tensor<512x64xf32>) -> tensor<64x512xf32>
  return %1, %2 : tensor<2x2xf32>, tensor<64x512xf32>
}

// An index outside of the table is not folded and says nothing here.
// CHECK-LABEL: func.func @outside
// CHECK: hpu.gather
func.func @outside() -> tensor<1xf32> {
  %a = hpu.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
  %i = hpu.constant dense<[5]> : tensor<1xi64> : tensor<1xi64>
  %0 = hpu.gather %a, %i {axis = 0 : i64} : (tensor<2xf32>, tensor<1xi64>) -> tensor<1xf32>
  return %0 : tensor<1xf32>
}

// Bits are bits: a NaN keeps its payload.
// CHECK-LABEL: func.func @bits
// CHECK: hpu.constant dense<[1065353216, -2147483648, 2139095040, 2143289345]> : tensor<4xi32>
// CHECK: hpu.constant dense<[1.000000e+00, 0xFF80]> : tensor<2xbf16>
// CHECK-NOT: hpu.bitcast
func.func @bits() -> (tensor<4xi32>, tensor<2xbf16>) {
  %a = hpu.constant dense<[1.0, -0.0, 0x7F800000, 0x7FC00001]> : tensor<4xf32> : tensor<4xf32>
  %0 = hpu.bitcast %a {to = i32} : (tensor<4xf32>) -> tensor<4xi32>
  %b = hpu.constant dense<[16256, -128]> : tensor<2xi16> : tensor<2xi16>
  %1 = hpu.bitcast %b {to = bf16} : (tensor<2xi16>) -> tensor<2xbf16>
  return %0, %1 : tensor<4xi32>, tensor<2xbf16>
}
