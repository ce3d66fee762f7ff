// Addresses of units' results (section, offset), of SRAM tiles, and how much of both is needed.
// RUN: hpu-opt %s --hpu-fuse="optimize=false" --hpu-layout --hpu-tile --hpu-memory --hpu-verify-memory | FileCheck %s
// RUN: hpu-opt %s --hpu-fuse="optimize=false" --hpu-layout --hpu-tile --hpu-memory="optimize=false" --hpu-verify-memory | FileCheck %s --check-prefix=EACH

// Section 0 is the input, 1 the output, 2 constants, 3 the workspace: a buffer is used again when its last reader is
// done, and not by that reader's own result.
// CHECK-LABEL: func.func @chain(
// CHECK-SAME: hpu.sram = 0 : i64, hpu.workspace = 2048 : i64
// CHECK: hpu.buffers = array<i64: 3, 0>
// CHECK-NEXT: hpu.relu
// CHECK: hpu.buffers = array<i64: 3, 1024>
// CHECK-NEXT: hpu.tanh
// CHECK: hpu.buffers = array<i64: 3, 0>
// CHECK-NEXT: hpu.exp
// CHECK: hpu.buffers = array<i64: 1, 0>
// CHECK-NEXT: hpu.neg
// EACH-LABEL: func.func @chain(
// EACH-SAME: hpu.workspace = 3072 : i64
// EACH: hpu.buffers = array<i64: 3, 0>
// EACH: hpu.buffers = array<i64: 3, 1024>
// EACH: hpu.buffers = array<i64: 3, 2048>
// EACH: hpu.buffers = array<i64: 1, 0>
func.func @chain(%x: tensor<256xf32>) -> tensor<256xf32> {
  %0 = hpu.relu %x : (tensor<256xf32>) -> tensor<256xf32>
  %1 = hpu.tanh %0 : (tensor<256xf32>) -> tensor<256xf32>
  %2 = hpu.exp %1 : (tensor<256xf32>) -> tensor<256xf32>
  %3 = hpu.neg %2 : (tensor<256xf32>) -> tensor<256xf32>
  return %3 : tensor<256xf32>
}

// A view keeps its base alive.
// CHECK-LABEL: func.func @throughViews(
// CHECK-SAME: hpu.workspace = 1536 : i64
// CHECK: hpu.buffers = array<i64: 3, 0>
// CHECK-NEXT: hpu.relu
// CHECK: hpu.buffers = array<i64: 3, 512>
// CHECK-NEXT: hpu.tanh
// CHECK: hpu.buffers = array<i64: 3, 1024>
// CHECK-NEXT: hpu.exp
// CHECK: hpu.buffers = array<i64: 1, 0>
// CHECK-NEXT: hpu.add
func.func @throughViews(%x: tensor<8x16xf32>) -> tensor<16x8xf32> {
  %0 = hpu.relu %x : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = hpu.transpose %0 {perm = array<i64: 1, 0>} : (tensor<8x16xf32>) -> tensor<16x8xf32>
  %2 = hpu.tanh %x : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %3 = hpu.exp %2 : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %4 = hpu.reshape %3 {shape = array<i64: 16, 8>} : (tensor<8x16xf32>) -> tensor<16x8xf32>
  %5 = hpu.add %4, %1 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  return %5 : tensor<16x8xf32>
}

// Outputs that are views are written where they are returned.
// CHECK-LABEL: func.func @outputs(
// CHECK-SAME: hpu.workspace = 0 : i64
// CHECK: hpu.buffers = array<i64: 2, 0>
// CHECK-NEXT: hpu.relu
// CHECK: hpu.buffers = array<i64: 1, 0>
// CHECK-NEXT: hpu.tanh
func.func @outputs(%x: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<128xf32>) {
  %0 = hpu.relu %x : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = hpu.tanh %0 : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %2 = hpu.reshape %0 {shape = array<i64: 128>} : (tensor<8x16xf32>) -> tensor<128xf32>
  return %1, %2 : tensor<8x16xf32>, tensor<128xf32>
}
