// RUN: hpu-opt %s --hpu-precision="to=f16" --hpu-verify-precision="to=f16" | FileCheck %s

// What leaves the range of f16 stays f32: an exponential and what is made of it alone, and a mask.
// CHECK-LABEL: func.func @range(
// CHECK: hpu.constant dense<-3.40282347E+38> : tensor<f32>
// CHECK: hpu.add {{.*}} -> tensor<4xf32>
// CHECK: hpu.exp {{.*}} -> tensor<4xf32>
// CHECK: hpu.reduce_sum {{.*}} -> tensor<1xf32>
func.func @range(%x: tensor<4xf32>) -> tensor<4xf32> {
  %m = hpu.constant dense<-3.40282347E+38> : tensor<f32> : tensor<f32>
  %0 = hpu.add %x, %m : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = hpu.exp %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = hpu.reduce_sum %1 {axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<1xf32>
  %3 = hpu.div %1, %2 : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  %4 = hpu.relu %3 : (tensor<4xf32>) -> tensor<4xf32>
  return %4 : tensor<4xf32>
}

// What asks whether a number is infinite or none asks the f32 number: 1e38 is infinite in f16. So does what only leads there.
// CHECK-LABEL: func.func @classify(
// CHECK: hpu.abs {{.*}} -> tensor<4xf32>
// CHECK: hpu.equal {{.*}} : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
// CHECK: hpu.sub {{.*}} -> tensor<4xf32>
// CHECK: hpu.is_nan {{.*}} : (tensor<4xf32>) -> tensor<4xi1>
func.func @classify(%x: tensor<4xf32>) -> tensor<4xi1> {
  %inf = hpu.constant dense<0x7F800000> : tensor<f32> : tensor<f32>
  %0 = hpu.abs %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = hpu.equal %0, %inf : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  %2 = hpu.sub %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = hpu.is_nan %2 : (tensor<4xf32>) -> tensor<4xi1>
  %4 = hpu.or %1, %3 : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  return %4 : tensor<4xi1>
}
