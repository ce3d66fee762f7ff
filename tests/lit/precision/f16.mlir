// RUN: hpu-opt %s --hpu-precision="to=f16" --hpu-verify-precision="to=f16" | FileCheck %s
// RUN: hpu-opt %s --hpu-precision="to=f16 keep=matmul" --hpu-verify-precision="to=f16 keep=matmul" | FileCheck %s --check-prefix=KEEP
// RUN: hpu-opt %s --hpu-precision="to=f16 keep=head" --hpu-verify-precision="to=f16 keep=head" | FileCheck %s --check-prefix=NODE
// RUN: not hpu-opt %s --hpu-precision="to=f16 keep=nobody" 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// RUN: not hpu-opt %s --hpu-precision="to=f16 keep=mathmul" 2>&1 | FileCheck %s --check-prefix=NEAR

// UNKNOWN: error: 'nobody' of the keep-f32 list is neither an op of the hpu dialect nor a node of the model
// NEAR: error: 'mathmul' of the keep-f32 list is neither {{.*}}; did you mean 'matmul'{{.*}}?

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
