// RUN: hpu-opt %s --hpu-precision="to=f16" --hpu-verify-precision="to=f16" | FileCheck %s
// RUN: hpu-opt %s --hpu-precision="to=f16 keep=matmul" --hpu-verify-precision="to=f16 keep=matmul" | FileCheck %s --check-prefix=KEEP
// RUN: hpu-opt %s --hpu-precision="to=f16 keep=head" --hpu-verify-precision="to=f16 keep=head" | FileCheck %s --check-prefix=NODE
// RUN: not hpu-opt %s --hpu-precision="to=f16 keep=nobody" 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// RUN: not hpu-opt %s --hpu-precision="to=f16 keep=mathmul" 2>&1 | FileCheck %s --check-prefix=NEAR

// UNKNOWN: error: 'nobody' of CompileOptions::keepF32 is neither an op of the hpu dialect nor a node of the model
// NEAR: error: 'mathmul' of CompileOptions::keepF32 is neither {{.*}}; did you mean 'matmul'{{.*}}?

// CHECK-LABEL: func.func @linear(
// CHECK-DAG: hpu.constant dense<5.000000e-01> : tensor<4x3xf16>
// CHECK: hpu.matmul {{.*}} -> tensor<2x3xf16>
// KEEP-LABEL: func.func @linear(
// KEEP: hpu.matmul {{.*}} -> tensor<2x3xf32>
// NODE-LABEL: func.func @linear(
// NODE: hpu.matmul {{.*}} -> tensor<2x3xf32>
func.func @linear(%x: tensor<2x4xf32>) -> tensor<2x3xf32> {
  %w = hpu.constant dense<0.5> : tensor<4x3xf32> : tensor<4x3xf32>
  %0 = hpu.matmul %x, %w : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32> loc("head")
  return %0 : tensor<2x3xf32>
}

// Two f32 ops of a model in f16, one behind the other: the model's own rounding between them stays.
// CHECK-LABEL: func.func @own(
// CHECK: %[[A:.*]] = hpu.cos %{{.*}} -> tensor<4x8xf32>
// CHECK-NEXT: %[[H:.*]] = hpu.cast %[[A]] {to = f16}
// CHECK-NEXT: %[[F:.*]] = hpu.cast %[[H]] {to = f32}
// CHECK-NEXT: %[[B:.*]] = hpu.cos %[[F]] : {{.*}} -> tensor<4x8xf32>
// CHECK-NEXT: hpu.cast %[[B]] {to = f16}
func.func @own(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %0 = hpu.cast %x {to = f32} : (tensor<4x8xf16>) -> tensor<4x8xf32>
  %1 = hpu.cos %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = hpu.cast %1 {to = f16} : (tensor<4x8xf32>) -> tensor<4x8xf16>
  %3 = hpu.cast %2 {to = f32} : (tensor<4x8xf16>) -> tensor<4x8xf32>
  %4 = hpu.cos %3 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = hpu.cast %4 {to = f16} : (tensor<4x8xf32>) -> tensor<4x8xf16>
  return %5 : tensor<4x8xf16>
}

// A model that rounds an input to f16 and computes in f32: the rounding stays, and is what a product reads.
// CHECK-LABEL: func.func @rounds(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x2xf32>,
// CHECK: %[[H:.*]] = hpu.cast %[[X]] {to = f16}
// CHECK-NEXT: %[[F:.*]] = hpu.cast %[[H]] {to = f32}
// CHECK: hpu.matmul %[[H]], %{{.*}} -> tensor<2x2xf16>
// CHECK: return %[[F]],
func.func @rounds(%x: tensor<2x2xf32>, %w: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %0 = hpu.cast %x {to = f16} : (tensor<2x2xf32>) -> tensor<2x2xf16>
  %1 = hpu.cast %0 {to = f32} : (tensor<2x2xf16>) -> tensor<2x2xf32>
  %2 = hpu.matmul %1, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %1, %2 : tensor<2x2xf32>, tensor<2x2xf32>
}
