// RUN: hpu-opt %s --hpu-precision="to=bf16 target=gaudi2" | FileCheck %s

// Overlaps that decide on which boxes remain are compared in f32.
// CHECK-LABEL: func.func @overlaps
// CHECK: hpu.mul {{.*}} -> tensor<8x8xf32>
// CHECK: hpu.less {{.*}}tensor<8x8xf32>
// CHECK: hpu.suppress
func.func @overlaps(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>, %kept: tensor<8xi1>) -> tensor<8xi1> {
  %limit = hpu.constant dense<0.5> : tensor<f32> : tensor<f32>
  %0 = hpu.matmul %x, %y : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = hpu.mul %0, %0 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = hpu.less %limit, %1 : (tensor<f32>, tensor<8x8xf32>) -> tensor<8x8xi1>
  %3 = hpu.suppress %kept, %2 : (tensor<8xi1>, tensor<8x8xi1>) -> tensor<8xi1>
  return %3 : tensor<8xi1>
}
