// RUN: hpu-opt %s --hpu-precision="to=bf16 target=gaudi2" | FileCheck %s

// Boxes whose overlaps decide on which of them remain are computed in f32.
// CHECK-LABEL: func.func @overlaps
// CHECK: hpu.mul {{.*}} -> tensor<1x8x4xf32>
// CHECK: hpu.select_boxes {{.*}}tensor<1x8x4xf32>
func.func @overlaps(%x: tensor<1x8x8xf32>, %y: tensor<1x8x4xf32>, %scores: tensor<1x2x8xf32>, %order: tensor<1x2x8xi64>)
    -> tensor<1x2x8xi64> {
  %limit = hpu.constant dense<0.5> : tensor<f32> : tensor<f32>
  %most = hpu.constant dense<3> : tensor<i64> : tensor<i64>
  %0 = hpu.matmul %x, %y : (tensor<1x8x8xf32>, tensor<1x8x4xf32>) -> tensor<1x8x4xf32>
  %1 = hpu.mul %0, %0 : (tensor<1x8x4xf32>, tensor<1x8x4xf32>) -> tensor<1x8x4xf32>
  %2 = hpu.select_boxes %1, %scores, %order, %most, %limit
      : (tensor<1x8x4xf32>, tensor<1x2x8xf32>, tensor<1x2x8xi64>, tensor<i64>, tensor<f32>) -> tensor<1x2x8xi64>
  return %2 : tensor<1x2x8xi64>
}
