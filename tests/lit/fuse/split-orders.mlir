// SPDX-License-Identifier: Apache-2.0
// RUN: hpu-opt %s --hpu-split-orders | FileCheck %s

// Each of 20 parts has its own first ones; the elements are those of the second step.
// CHECK-LABEL: func.func @long(
// CHECK: %[[PARTS:.*]] = hpu.reshape %arg0 {shape = array<i64: 1, 20, 50000>}
// CHECK: %[[IN:.*]] = hpu.top_indices %[[PARTS]] {axis = 2 : i64, {{.*}}sizes = array<i64: 100>}{{.*}} -> tensor<1x20x100xi64>
// CHECK: %[[V:.*]] = hpu.gather_elements %[[PARTS]], %[[IN]] {axis = 2 : i64}
// CHECK: %[[ALL:.*]] = hpu.reshape %[[V]] {shape = array<i64: 1, 2000>}
// CHECK: %[[WHICH:.*]] = hpu.top_indices %[[ALL]] {axis = 1 : i64, {{.*}}sizes = array<i64: 100>}
// CHECK: hpu.gather_elements %{{.*}}, %[[WHICH]]
// CHECK: hpu.div %[[WHICH]]
// CHECK: %[[I:.*]] = hpu.add
// CHECK: %[[P:.*]] = hpu.gather_elements %[[ALL]], %[[WHICH]]
// CHECK: return %[[P]], %[[I]]
func.func @long(%x: tensor<1x1000000xf32>) -> (tensor<1x100xf32>, tensor<1x100xi64>) {
  %0 = hpu.top_indices %x {axis = 1 : i64, sizes = array<i64: 100>} : (tensor<1x1000000xf32>) -> tensor<1x100xi64>
  %1 = hpu.gather_elements %x, %0 {axis = 1 : i64} : (tensor<1x1000000xf32>, tensor<1x100xi64>) -> tensor<1x100xf32>
  return %1, %0 : tensor<1x100xf32>, tensor<1x100xi64>
}

// There are rows enough, or too much is picked, or no number of parts divides a prime.
// CHECK-LABEL: func.func @whole(
// CHECK-COUNT-3: hpu.top_indices
// CHECK-NOT: hpu.top_indices
func.func @whole(%x: tensor<64x1000000xf32>, %y: tensor<1x100000xf32>, %z: tensor<1x1000003xf32>)
    -> (tensor<64x100xi64>, tensor<1x50000xi64>, tensor<1x10xi64>) {
  %0 = hpu.top_indices %x {axis = 1 : i64, sizes = array<i64: 100>} : (tensor<64x1000000xf32>) -> tensor<64x100xi64>
  %1 = hpu.top_indices %y {axis = 1 : i64, sizes = array<i64: 50000>} : (tensor<1x100000xf32>) -> tensor<1x50000xi64>
  %2 = hpu.top_indices %z {axis = 1 : i64, sizes = array<i64: 10>} : (tensor<1x1000003xf32>) -> tensor<1x10xi64>
  return %0, %1, %2 : tensor<64x100xi64>, tensor<1x50000xi64>, tensor<1x10xi64>
}
