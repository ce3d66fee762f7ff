// Addresses of units' results (section, offset), of SRAM tiles, and how much of both is needed.
// RUN: hpu-opt %s --hpu-fuse="optimize=false" --hpu-layout --hpu-tile="optimize=false" --hpu-memory --hpu-verify-memory | FileCheck %s
// RUN: hpu-opt %s --hpu-fuse="optimize=false" --hpu-layout --hpu-tile="optimize=false" --hpu-memory="optimize=false" --hpu-verify-memory | FileCheck %s --check-prefix=EACH

// Section 0 is the input, 1 the output, 2 constants, 3 the workspace. Each result takes its operand's place, and the last
// one is the output, so the whole chain is written there.
// CHECK-LABEL: func.func @chain(
// CHECK-SAME: hpu.sram = 0 : i64, hpu.workspace = 0 : i64
// CHECK: hpu.buffers = array<i64: 1, 0>
// CHECK-NEXT: hpu.relu
// CHECK: hpu.buffers = array<i64: 1, 0>
// CHECK-NEXT: hpu.tanh
// CHECK: hpu.buffers = array<i64: 1, 0>
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

// A view keeps its base alive. An operand that is read through a transpose cannot be written over point by point, one
// that is read through a reshape can.
// CHECK-LABEL: func.func @throughViews(
// CHECK-SAME: hpu.workspace = 512 : i64
// CHECK: hpu.buffers = array<i64: 3, 0>
// CHECK-NEXT: hpu.relu
// CHECK: hpu.buffers = array<i64: 1, 0>
// CHECK-NEXT: hpu.tanh
// CHECK: hpu.buffers = array<i64: 1, 0>
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

// A buffer is used again when its last reader is done, but not by that reader's own result where that is no in-place
// write: matrix products read their operands again and again.
// CHECK-LABEL: func.func @products(
// CHECK-SAME: hpu.workspace = 8192 : i64
// CHECK: hpu.buffers = array<i64: 4, [[FIRST:[0-9]+]]>
// CHECK: hpu.buffers = array<i64: 4, [[SECOND:[0-9]+]]>
// CHECK: hpu.buffers = array<i64: 4, [[FIRST]]>
// CHECK: hpu.buffers = array<i64: 2, 0>
func.func @products(%x: tensor<32x32xf32>, %w: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %0 = hpu.matmul %x, %w : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %1 = hpu.matmul %0, %w : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %2 = hpu.matmul %1, %w : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %3 = hpu.matmul %2, %w : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  return %3 : tensor<32x32xf32>
}

// The residual's operand may be written over by the last add, and not by relu, after which it is still read. Both operands
// of `square` are one buffer: read at one point, it may be replaced; read through a transpose as well, it may not.
// CHECK-LABEL: func.func @residual(
// CHECK-SAME: hpu.workspace = 2048 : i64
// CHECK: hpu.buffers = array<i64: 3, [[KEPT:[0-9]+]]>
// CHECK-NEXT: hpu.tanh
// CHECK: hpu.buffers = array<i64: 3, [[OTHER:[0-9]+]]>
// CHECK-NEXT: hpu.relu
// CHECK: hpu.buffers = array<i64: 3, [[PLACE:[0-9]+]]>
// CHECK-NEXT: hpu.add
// CHECK: hpu.buffers = array<i64: 3, [[PLACE]]>
// CHECK-NEXT: hpu.mul
// CHECK: hpu.buffers = array<i64: 1, 0>
// CHECK-NEXT: hpu.add
func.func @residual(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = hpu.tanh %x : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %1 = hpu.relu %0 : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %2 = hpu.add %1, %0 : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %3 = hpu.mul %2, %2 : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %4 = hpu.transpose %3 {perm = array<i64: 1, 0>} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %5 = hpu.add %3, %4 : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  return %5 : tensor<16x16xf32>
}
