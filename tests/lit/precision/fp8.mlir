// RUN: hpu-opt %s --hpu-precision="to=fp8 ranges=q:0=3,head:0=100,conv:0=1" --hpu-verify-precision="to=fp8" --split-input-file | FileCheck %s
// RUN: hpu-opt %s --hpu-precision="to=fp8 target=gaudi3 ranges=q:0=3,head:0=100,conv:0=1" --split-input-file | FileCheck %s --check-prefix=G3
// RUN: hpu-opt %s --hpu-precision="to=fp8_e5m2" --hpu-verify-precision="to=fp8_e5m2" --split-input-file | FileCheck %s --check-prefix=DYN
// RUN: not hpu-opt %s --hpu-precision="to=fp8 ranges=other:0=1" --split-input-file 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not hpu-opt %s --hpu-precision="to=fp8 target=gaudi1" --split-input-file 2>&1 | FileCheck %s --check-prefix=LACKS

// MISSING: there is no calibrated range 'q:0'; calibrate this model with the same shapes and options
// LACKS: error: gaudi1 has no fp8

// Gaudi 2 has the scales 1/256, 1/16, 1 and 16, up to 240 each: twice 3 fits 1/16 (15), 0.5 fits 1/256 (0.94).
// The factors are powers of two; the product is bf16.
// CHECK-LABEL: func.func @linear(
// CHECK-SAME: %[[X:.*]]: tensor<2x4xf32>)
// CHECK-DAG: %[[W:.*]] = hpu.constant dense<1.280000e+02> : tensor<4x3xf8E4M3>
// CHECK-DAG: %[[K:.*]] = hpu.constant dense<1.600000e+01> : tensor<f32>
// CHECK-DAG: %[[M:.*]] = hpu.mul %[[X]], %[[K]]
// CHECK-DAG: %[[C:.*]] = hpu.cast %[[M]] {to = f8E4M3} : (tensor<2x4xf32>) -> tensor<2x4xf8E4M3>
// CHECK: %[[P:.*]] = hpu.matmul %[[C]], %[[W]] : (tensor<2x4xf8E4M3>, tensor<4x3xf8E4M3>) -> tensor<2x3xbf16>
// CHECK: %[[S:.*]] = hpu.constant dense<2.441410e-04> : tensor<bf16>
// CHECK: hpu.mul %[[P]], %[[S]] : (tensor<2x3xbf16>, tensor<bf16>) -> tensor<2x3xbf16>
// Gaudi 3: OCP's range, 448: the least powers of two are 2^-6 and 2^-9.
// G3-LABEL: func.func @linear(
// G3-DAG: hpu.constant dense<2.560000e+02> : tensor<4x3xf8E4M3FN>
// G3-DAG: hpu.constant dense<6.400000e+01> : tensor<f32>
// G3: hpu.matmul {{.*}} : (tensor<2x4xf8E4M3FN>, tensor<4x3xf8E4M3FN>) -> tensor<2x3xbf16>
// Without ranges the scale is computed, from rows to the whole.
// DYN-LABEL: func.func @linear(
// DYN: hpu.abs
// DYN: hpu.reduce_max {{.*}}axes = array<i64: 1>
// DYN: hpu.reduce_max {{.*}}axes = array<i64: 0>
// DYN: hpu.reciprocal
// DYN: hpu.cast {{.*}} {to = f8E5M2}
// DYN: hpu.matmul {{.*}} : (tensor<2x4xf8E5M2>, tensor<4x3xf8E5M2>) -> tensor<2x3xbf16>
func.func @linear(%x: tensor<2x4xf32>) -> tensor<2x3xf32> {
  %w = hpu.constant dense<0.5> : tensor<4x3xf32> : tensor<4x3xf32>
  %0 = hpu.matmul %x, %w : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32> loc("q")
  return %0 : tensor<2x3xf32>
}

// -----

// One set of codes for all products of a tensor, behind its views too; products of an attention stay bf16.
// CHECK-LABEL: func.func @attention(
// CHECK: hpu.relu
// CHECK: %[[C:.*]] = hpu.cast {{.*}} {to = f8E4M3}
// CHECK-NOT: to = f8E4M3
// CHECK: %[[R:.*]] = hpu.reshape %[[C]] {{.*}} -> tensor<4x4xf8E4M3>
// CHECK: hpu.matmul %[[R]], {{.*}} -> tensor<4x4xbf16>
// CHECK: hpu.matmul {{.*}} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
// CHECK: hpu.softmax
// CHECK: hpu.matmul {{.*}} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
func.func @attention(%x: tensor<2x2x4xf32>) -> tensor<4x4xf32> {
  %w = hpu.constant dense<0.25> : tensor<4x4xf32> : tensor<4x4xf32>
  %s = hpu.constant dense<0.5> : tensor<f32> : tensor<f32>
  %0 = hpu.relu %x : (tensor<2x2x4xf32>) -> tensor<2x2x4xf32>
  %1 = hpu.reshape %0 {shape = array<i64: 4, 4>} : (tensor<2x2x4xf32>) -> tensor<4x4xf32>
  %q = hpu.matmul %1, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("q")
  %k = hpu.transpose %q {perm = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = hpu.matmul %q, %k : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("scores")
  %3 = hpu.mul %2, %s : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %4 = hpu.softmax %3 {axis = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = hpu.matmul %4, %q : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc("values")
  return %5 : tensor<4x4xf32>
}

// -----

// The largest magnitude of one number is itself.
// DYN-LABEL: func.func @number(
// DYN-NOT: hpu.reduce_max
// DYN: hpu.matmul {{.*}} : (tensor<1x1xf8E5M2>, tensor<1x3xf8E5M2>) -> tensor<1x3xbf16>
func.func @number(%x: tensor<f32>) -> tensor<1x3xf32> {
  %w = hpu.constant dense<0.5> : tensor<1x3xf32> : tensor<1x3xf32>
  %m = hpu.reshape %x {shape = array<i64: 1, 1>} : (tensor<f32>) -> tensor<1x1xf32>
  %0 = hpu.matmul %m, %w : (tensor<1x1xf32>, tensor<1x3xf32>) -> tensor<1x3xf32> loc("conv")
  return %0 : tensor<1x3xf32>
}

// -----

// An input behind a view: its f32 is read, not the bf16 that the view has, and no cast is undone.
// DYN-LABEL: func.func @viewed(
// DYN-SAME: %[[X:.*]]: tensor<4x2xf32>)
// DYN: hpu.abs %[[X]]
// DYN: %[[M:.*]] = hpu.mul %[[X]], %{{.*}} : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
// DYN: %[[C:.*]] = hpu.cast %[[M]] {to = f8E5M2}
// DYN: %[[T:.*]] = hpu.transpose %[[C]] {{.*}} -> tensor<2x4xf8E5M2>
// DYN: hpu.matmul %[[T]]
func.func @viewed(%x: tensor<4x2xf32>) -> tensor<2x3xf32> {
  %w = hpu.constant dense<0.5> : tensor<4x3xf32> : tensor<4x3xf32>
  %t = hpu.transpose %x {perm = array<i64: 1, 0>} : (tensor<4x2xf32>) -> tensor<2x4xf32>
  %0 = hpu.matmul %t, %w : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32> loc("conv")
  return %0 : tensor<2x3xf32>
}
