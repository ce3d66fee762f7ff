// SRAM tiles of bundles: [offset, slots, dim, bytes of a slot].
// RUN: hpu-opt %s --hpu-memory --hpu-verify-memory | FileCheck %s

// Two slots of 256 rows. Neighbouring bundles have tiles of their own, since the MME is ahead of the TPC; the third
// one takes the first one's place.
// CHECK-LABEL: func.func @pipelined(
// CHECK-SAME: hpu.sram = 4194304 : i64
// CHECK: hpu.ring = array<i64: 0, 2, 0, 1048576>, tile = #hpu.tile<[256, 1024], slots = 2>
// CHECK: hpu.ring = array<i64: 2097152, 2, 0, 1048576>, tile = #hpu.tile<[256, 1024], slots = 2>
// CHECK: hpu.ring = array<i64: 0, 2, 0, 1048576>, tile = #hpu.tile<[256, 1024], slots = 2>
func.func @pipelined(%x: tensor<1024x1024xf32>, %w: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
  %0 = hpu.bundle (%a = %x, %b = %w) {tile = #hpu.tile<[256, 1024], slots = 2>} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
    %5 = hpu.matmul %a, %b : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %6 = hpu.relu %5 : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    hpu.yield %6 : tensor<1024x1024xf32>
  }
  %1 = hpu.bundle (%a = %0, %b = %w) {tile = #hpu.tile<[256, 1024], slots = 2>} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
    %5 = hpu.matmul %a, %b : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %6 = hpu.relu %5 : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    hpu.yield %6 : tensor<1024x1024xf32>
  }
  %2 = hpu.bundle (%a = %1, %b = %w) {tile = #hpu.tile<[256, 1024], slots = 2>} : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
    %5 = hpu.matmul %a, %b : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %6 = hpu.relu %5 : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    hpu.yield %6 : tensor<1024x1024xf32>
  }
  return %2 : tensor<1024x1024xf32>
}

// A bundle that is not cut has one slot; an MME op alone has none.
// CHECK-LABEL: func.func @whole(
// CHECK-SAME: hpu.sram = 256 : i64
// CHECK: hpu.ring = array<i64: 0, 1, 0, 256>
// CHECK-NOT: hpu.ring
// CHECK: return
func.func @whole(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %0 = hpu.bundle (%a = %x, %b = %w) {tile = #hpu.tile<[4, 8]>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> {
    %5 = hpu.matmul %a, %b : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %6 = hpu.relu %5 : (tensor<4x8xf32>) -> tensor<4x8xf32>
    hpu.yield %6 : tensor<4x8xf32>
  }
  %1 = hpu.bundle (%a = %0, %b = %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> {
    %5 = hpu.matmul %a, %b : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    hpu.yield %5 : tensor<4x8xf32>
  }
  return %1 : tensor<4x8xf32>
}
