// SRAM tiles of chained results, and what lives while their units take turns.
// RUN: hpu-opt %s --hpu-memory --hpu-verify-memory --split-input-file | FileCheck %s

// Sections: x, w, output, constants, workspace, SRAM. Both rings of the chain are there together; nothing is in HBM.
// CHECK-LABEL: func.func @inSram(
// CHECK-SAME: hpu.sram = 16384 : i64, hpu.workspace = 0 : i64
// CHECK: hpu.bundle
// CHECK-SAME: hpu.buffers = array<i64: 5, [[AT:[0-9]+]]>, hpu.chain = array<i64: 0, 2>, hpu.chain_ring = array<i64: [[AT]], 2, 0, 4096>, hpu.strides = [array<i64: 64, 1>]
// CHECK: hpu.bundle
// CHECK-SAME: hpu.buffers = array<i64: 2, 0>, hpu.ring = array<i64: {{[0-9]+}}, 2, 0, 4096>
func.func @inSram(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = hpu.bundle (%a = %x, %b = %w) {hpu.chain = array<i64: 0, 2>, tile = #hpu.tile<[16, 64]>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
    %2 = hpu.matmul %a, %b : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    hpu.yield %2 : tensor<64x64xf32>
  }
  %1 = hpu.bundle (%a = %0, %b = %w) {tile = #hpu.tile<[16, 64], slots = 2>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
    %2 = hpu.matmul %a, %b : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %3 = hpu.relu %2 : (tensor<64x64xf32>) -> tensor<64x64xf32>
    hpu.yield %3 : tensor<64x64xf32>
  }
  return %1 : tensor<64x64xf32>
}

// -----

// What the first unit reads is alive until the second one's last slice: its place is not free for the second's result.
// CHECK-LABEL: func.func @turns(
// CHECK-SAME: hpu.workspace = 32768 : i64
// CHECK: hpu.cluster
// CHECK-SAME: hpu.buffers = array<i64: 4, [[FIRST:[0-9]+]]>
// CHECK: hpu.bundle
// CHECK-SAME: hpu.chain_ring
// CHECK: hpu.bundle
// CHECK-NOT: hpu.buffers = array<i64: 4, [[FIRST]]>
// CHECK-SAME: hpu.buffers = array<i64: 4, {{[0-9]+}}>
func.func @turns(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %r = hpu.cluster (%a = %x) : (tensor<64x64xf32>) -> tensor<64x64xf32> {
    %2 = hpu.relu %a : (tensor<64x64xf32>) -> tensor<64x64xf32>
    hpu.yield %2 : tensor<64x64xf32>
  }
  %0 = hpu.bundle (%a = %r, %b = %w) {hpu.chain = array<i64: 0, 2>, tile = #hpu.tile<[16, 64]>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
    %2 = hpu.matmul %a, %b : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    hpu.yield %2 : tensor<64x64xf32>
  }
  %1 = hpu.bundle (%a = %0, %b = %w) {tile = #hpu.tile<[16, 64]>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
    %2 = hpu.matmul %a, %b : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    hpu.yield %2 : tensor<64x64xf32>
  }
  %t = hpu.transpose %1 {perm = array<i64: 1, 0>} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %y = hpu.cluster (%a = %t) : (tensor<64x64xf32>) -> tensor<64x64xf32> {
    %2 = hpu.tanh %a : (tensor<64x64xf32>) -> tensor<64x64xf32>
    hpu.yield %2 : tensor<64x64xf32>
  }
  return %y : tensor<64x64xf32>
}

// -----

// Nor does the second unit write over what both read, though its own reads are point by point.
// CHECK-LABEL: func.func @readByBoth(
// CHECK: hpu.cluster
// CHECK-SAME: hpu.buffers = array<i64: 4, [[FIRST:[0-9]+]]>
// CHECK: hpu.bundle
// CHECK-SAME: hpu.chain_ring
// CHECK: hpu.bundle
// CHECK-NOT: hpu.buffers = array<i64: 4, [[FIRST]]>
// CHECK-SAME: hpu.buffers = array<i64: 4, {{[0-9]+}}>
func.func @readByBoth(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %r = hpu.cluster (%a = %x) : (tensor<64x64xf32>) -> tensor<64x64xf32> {
    %2 = hpu.relu %a : (tensor<64x64xf32>) -> tensor<64x64xf32>
    hpu.yield %2 : tensor<64x64xf32>
  }
  %0 = hpu.bundle (%a = %w, %b = %r) {hpu.chain = array<i64: 0, 2>, tile = #hpu.tile<[16, 64]>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
    %2 = hpu.matmul %a, %b : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    hpu.yield %2 : tensor<64x64xf32>
  }
  %1 = hpu.bundle (%a = %0, %b = %w, %c = %r) {tile = #hpu.tile<[16, 64], slots = 2>} : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
    %2 = hpu.matmul %a, %b : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %3 = hpu.add %2, %c : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    hpu.yield %3 : tensor<64x64xf32>
  }
  %t = hpu.transpose %1 {perm = array<i64: 1, 0>} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %y = hpu.cluster (%a = %t) : (tensor<64x64xf32>) -> tensor<64x64xf32> {
    %2 = hpu.tanh %a : (tensor<64x64xf32>) -> tensor<64x64xf32>
    hpu.yield %2 : tensor<64x64xf32>
  }
  return %y : tensor<64x64xf32>
}

// -----

// A result in one tile: the units run one after the other, so the operand's place is free for the second's result.
// CHECK-LABEL: func.func @oneTile(
// CHECK-SAME: hpu.sram = 16384 : i64
// CHECK: hpu.cluster
// CHECK-SAME: hpu.buffers = array<i64: 4, 0>
// CHECK: hpu.bundle
// CHECK-SAME: hpu.chain_ring = array<i64: 0, 1, 0, 16384>
// CHECK-NOT: hpu.strides
// CHECK: hpu.bundle
// CHECK-SAME: hpu.buffers = array<i64: 4, 0>
func.func @oneTile(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %r = hpu.cluster (%a = %x) : (tensor<64x64xf32>) -> tensor<64x64xf32> {
    %2 = hpu.relu %a : (tensor<64x64xf32>) -> tensor<64x64xf32>
    hpu.yield %2 : tensor<64x64xf32>
  }
  %0 = hpu.bundle (%a = %r, %b = %w) {hpu.chain = array<i64: 0, 1>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
    %2 = hpu.matmul %a, %b : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    hpu.yield %2 : tensor<64x64xf32>
  }
  %1 = hpu.bundle (%a = %0, %b = %w) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
    %2 = hpu.matmul %a, %b : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    hpu.yield %2 : tensor<64x64xf32>
  }
  %t = hpu.transpose %1 {perm = array<i64: 1, 0>} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %y = hpu.cluster (%a = %t) : (tensor<64x64xf32>) -> tensor<64x64xf32> {
    %2 = hpu.tanh %a : (tensor<64x64xf32>) -> tensor<64x64xf32>
    hpu.yield %2 : tensor<64x64xf32>
  }
  return %y : tensor<64x64xf32>
}
