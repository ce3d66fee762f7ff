// RUN: hpu-opt %s --hpu-simplify --hpu-merge-common | FileCheck %s

// CHECK-LABEL: func.func @transposes(
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4xf32>
// CHECK: %[[T:.*]] = hpu.transpose %[[X]] {perm = array<i64: 1, 2, 0>}
// CHECK: return %[[X]], %[[T]]
func.func @transposes(%x: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<3x4x2xf32>) {
  %0 = hpu.transpose %x {perm = array<i64: 2, 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  %1 = hpu.transpose %0 {perm = array<i64: 1, 2, 0>} : (tensor<4x2x3xf32>) -> tensor<2x3x4xf32>
  %2 = hpu.transpose %0 {perm = array<i64: 2, 0, 1>} : (tensor<4x2x3xf32>) -> tensor<3x4x2xf32>
  return %1, %2 : tensor<2x3x4xf32>, tensor<3x4x2xf32>
}

// CHECK-LABEL: func.func @reshapes(
// CHECK-SAME: %[[X:.*]]: tensor<2x12xf32>
// CHECK: %[[R:.*]] = hpu.reshape %[[X]] {shape = array<i64: 4, 6>}
// CHECK: return %[[X]], %[[R]]
func.func @reshapes(%x: tensor<2x12xf32>) -> (tensor<2x12xf32>, tensor<4x6xf32>) {
  %0 = hpu.reshape %x {shape = array<i64: 24>} : (tensor<2x12xf32>) -> tensor<24xf32>
  %1 = hpu.reshape %0 {shape = array<i64: 2, 12>} : (tensor<24xf32>) -> tensor<2x12xf32>
  %2 = hpu.reshape %0 {shape = array<i64: 4, 6>} : (tensor<24xf32>) -> tensor<4x6xf32>
  return %1, %2 : tensor<2x12xf32>, tensor<4x6xf32>
}

// CHECK-LABEL: func.func @slices(
// CHECK-SAME: %[[X:.*]]: tensor<16xf32>
// CHECK-NEXT: %[[S:.*]] = hpu.slice %[[X]] {sizes = array<i64: 2>, starts = array<i64: 7>, steps = array<i64: 6>}
// CHECK-NEXT: return %[[X]], %[[S]]
func.func @slices(%x: tensor<16xf32>) -> (tensor<16xf32>, tensor<2xf32>) {
  %0 = hpu.slice %x {starts = array<i64: 0>, sizes = array<i64: 16>, steps = array<i64: 1>} : (tensor<16xf32>) -> tensor<16xf32>
  %1 = hpu.slice %x {starts = array<i64: 1>, sizes = array<i64: 5>, steps = array<i64: 3>} : (tensor<16xf32>) -> tensor<5xf32>
  %2 = hpu.slice %1 {starts = array<i64: 2>, sizes = array<i64: 2>, steps = array<i64: 2>} : (tensor<5xf32>) -> tensor<2xf32>
  return %0, %2 : tensor<16xf32>, tensor<2xf32>
}

// A pad of nothing, a cast to the same type and a concat of one tensor go.
// CHECK-LABEL: func.func @nothing(
// CHECK-SAME: %[[X:.*]]: tensor<1x2x4x4xf32>
// CHECK-NEXT: return %[[X]]
func.func @nothing(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %0 = hpu.pad %x {low = array<i64: 0, 0, 0, 0>, high = array<i64: 0, 0, 0, 0>, value = 0.0 : f64} : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %1 = hpu.cast %0 {to = f32} : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %2 = hpu.concat %1 {axis = 1 : i64} : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  return %2 : tensor<1x2x4x4xf32>
}

// The first add broadcasts by itself; the second one's result has the expanded shape.
// CHECK-LABEL: func.func @expands(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[B:.*]]: tensor<1x8xf32>
// CHECK: %[[E:.*]] = hpu.expand %[[B]]
// CHECK: hpu.add %[[X]], %[[B]]
// CHECK: hpu.add %[[E]], %[[B]]
func.func @expands(%x: tensor<4x8xf32>, %b: tensor<1x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = hpu.expand %b {shape = array<i64: 4, 8>} : (tensor<1x8xf32>) -> tensor<4x8xf32>
  %1 = hpu.add %x, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = hpu.add %0, %b : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>
  return %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}

// One row, taken from the end; every second row; unsorted rows stay a gather.
// CHECK-LABEL: func.func @gathers(
// CHECK-SAME: %[[X:.*]]: tensor<2x8x4xf32>
// CHECK: %[[ROW:.*]] = hpu.slice %[[X]] {sizes = array<i64: 2, 1, 4>, starts = array<i64: 0, 7, 0>
// CHECK: hpu.reshape %[[ROW]] {shape = array<i64: 2, 4>}
// CHECK: hpu.slice %[[X]] {sizes = array<i64: 2, 3, 4>, starts = array<i64: 0, 1, 0>, steps = array<i64: 1, 2, 1>}
// CHECK: hpu.gather %[[X]]
func.func @gathers(%x: tensor<2x8x4xf32>) -> (tensor<2x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>) {
  %last = hpu.constant dense<-1> : tensor<i64> : tensor<i64>
  %odd = hpu.constant dense<[1, 3, 5]> : tensor<3xi64> : tensor<3xi64>
  %mixed = hpu.constant dense<[1, 5, 3]> : tensor<3xi64> : tensor<3xi64>
  %0 = hpu.gather %x, %last {axis = 1 : i64} : (tensor<2x8x4xf32>, tensor<i64>) -> tensor<2x4xf32>
  %1 = hpu.gather %x, %odd {axis = 1 : i64} : (tensor<2x8x4xf32>, tensor<3xi64>) -> tensor<2x3x4xf32>
  %2 = hpu.gather %x, %mixed {axis = 1 : i64} : (tensor<2x8x4xf32>, tensor<3xi64>) -> tensor<2x3x4xf32>
  return %0, %1, %2 : tensor<2x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>
}

// Bit casts merge; back to where they came from they are nothing.
// CHECK-LABEL: func.func @bitcasts(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>)
// CHECK: %[[B:.*]] = hpu.bitcast %[[X]] {to = ui32}
// CHECK-NEXT: return %[[X]], %[[B]]
func.func @bitcasts(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xui32>) {
  %0 = hpu.bitcast %x {to = i32} : (tensor<4xf32>) -> tensor<4xi32>
  %1 = hpu.bitcast %0 {to = f32} : (tensor<4xi32>) -> tensor<4xf32>
  %2 = hpu.bitcast %0 {to = ui32} : (tensor<4xi32>) -> tensor<4xui32>
  return %1, %2 : tensor<4xf32>, tensor<4xui32>
}
