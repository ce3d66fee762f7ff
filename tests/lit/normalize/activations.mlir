// RUN: hpu-opt %s --hpu-recognise-composites | FileCheck %s

// CHECK-LABEL: func.func @silu(
// CHECK-SAME: %[[X:.*]]: tensor<8xf32>
// CHECK-NEXT: %[[A:.*]] = hpu.silu %[[X]]
// CHECK-NEXT: %[[B:.*]] = hpu.silu %[[X]]
// CHECK-NEXT: return %[[A]], %[[B]]
func.func @silu(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = hpu.sigmoid %x : (tensor<8xf32>) -> tensor<8xf32>
  %1 = hpu.mul %x, %0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = hpu.mul %0, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %1, %2 : tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: func.func @gate(
// CHECK: hpu.sigmoid
// CHECK: hpu.mul
func.func @gate(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %0 = hpu.sigmoid %x : (tensor<8xf32>) -> tensor<8xf32>
  %1 = hpu.mul %y, %0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// CHECK-LABEL: func.func @hardSwishOfClip(
// CHECK-SAME: %[[X:.*]]: tensor<8xf32>
// CHECK-NEXT: %[[H:.*]] = hpu.hard_swish %[[X]]
// CHECK-NEXT: return %[[H]]
func.func @hardSwishOfClip(%x: tensor<8xf32>) -> tensor<8xf32> {
  %three = hpu.constant dense<3.0> : tensor<f32> : tensor<f32>
  %six = hpu.constant dense<6.0> : tensor<f32> : tensor<f32>
  %0 = hpu.add %x, %three : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = hpu.clip %0 {min = 0.0 : f64, max = 6.0 : f64} : (tensor<8xf32>) -> tensor<8xf32>
  %2 = hpu.mul %x, %1 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %3 = hpu.div %2, %six : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}

// CHECK-LABEL: func.func @hardSwishOfHardSigmoid(
// CHECK-SAME: %[[X:.*]]: tensor<8xf32>
// CHECK-NEXT: %[[H:.*]] = hpu.hard_swish %[[X]]
// CHECK-NEXT: return %[[H]]
func.func @hardSwishOfHardSigmoid(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = hpu.hard_sigmoid %x {alpha = 0.16666667163372 : f64, beta = 0.5 : f64} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = hpu.mul %0, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}
