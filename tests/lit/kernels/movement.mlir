// RUN: hpu-opt %s --hpu-kernel-ir | FileCheck %s

// Each input of a concat is a loop nest of its own.
// CHECK-LABEL: // kernel concat
// CHECK-COUNT-2: llvm.intr.masked.store
// CHECK-NOT: llvm.intr.masked.store
func.func @concat(%x: tensor<2x3xf32>, %y: tensor<2x5xf32>) -> tensor<2x8xf32> {
  %0 = hpu.cluster (%a0 = %x, %a1 = %y) : (tensor<2x3xf32>, tensor<2x5xf32>) -> (tensor<2x8xf32>) {
    %r = hpu.concat %a0, %a1 {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x5xf32>) -> tensor<2x8xf32>
    hpu.yield %r : tensor<2x8xf32>
  }
  return %0 : tensor<2x8xf32>
}

// The index of a row is loaded once, wrapped and clamped; the row is copied with vectors.
// CHECK-LABEL: // kernel gather
// CHECK: %[[I:.*]] = llvm.load {{.*}} -> i64
// CHECK: arith.select
// CHECK: arith.cmpi sgt
// CHECK: arith.cmpi slt
// CHECK: llvm.load {{.*}} -> vector<64xf32>
func.func @gather(%x: tensor<100x256xf32>, %i: tensor<12xi64>) -> tensor<12x256xf32> {
  %0 = hpu.cluster (%a0 = %x, %a1 = %i) : (tensor<100x256xf32>, tensor<12xi64>) -> (tensor<12x256xf32>) {
    %r = hpu.gather %a0, %a1 {axis = 0 : i64} : (tensor<100x256xf32>, tensor<12xi64>) -> tensor<12x256xf32>
    hpu.yield %r : tensor<12x256xf32>
  }
  return %0 : tensor<12x256xf32>
}

// Resize reads its source rows and weights from tables in the image.
// CHECK-LABEL: // kernel resize
// CHECK: llvm.mlir.global internal constant
// CHECK: llvm.mlir.addressof
func.func @resize(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x8x8xf32> {
  %0 = hpu.cluster (%a0 = %x) : (tensor<1x2x4x4xf32>) -> (tensor<1x2x8x8xf32>) {
    %r = hpu.resize %a0 {sizes = array<i64: 8, 8>, scales = array<f64: 2.0, 2.0>, mode = 0 : i32, coordinates = 3 : i32, nearest = 2 : i32}
       : (tensor<1x2x4x4xf32>) -> tensor<1x2x8x8xf32>
    hpu.yield %r : tensor<1x2x8x8xf32>
  }
  return %0 : tensor<1x2x8x8xf32>
}
