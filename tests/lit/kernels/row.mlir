// RUN: hpu-opt %s --hpu-kernel-ir | FileCheck %s

// Softmax makes three passes over a row; the exponentials are computed once, kept in local memory, and read back.
// CHECK-LABEL: // kernel softmax
// CHECK: arith.cmpf ogt
// CHECK: vector.shuffle
// CHECK: math.roundeven
// CHECK: llvm.store {{.*}} : vector<64xf32>
// CHECK: vector.shuffle
// CHECK: arith.divf {{.*}} : f32
// CHECK-NOT: math.roundeven
// CHECK: llvm.load {{.*}} -> vector<64xf32>
// CHECK: arith.mulf
// CHECK: llvm.store {{.*}} : vector<64xf32>
func.func @softmax(%x: tensor<4x128xf32>) -> tensor<4x128xf32> {
  %0 = hpu.cluster (%a0 = %x) : (tensor<4x128xf32>) -> (tensor<4x128xf32>) {
    %r = hpu.softmax %a0 {axis = 1 : i64} : (tensor<4x128xf32>) -> tensor<4x128xf32>
    hpu.yield %r : tensor<4x128xf32>
  }
  return %0 : tensor<4x128xf32>
}

// A reduction over another dim than the contiguous one keeps the lanes side by side: no shuffle.
// CHECK-LABEL: // kernel columns
// CHECK: scf.for {{.*}} iter_args({{.*}}) -> (vector<64xf32>)
// CHECK-NOT: vector.shuffle
// CHECK: llvm.store {{.*}} : vector<64xf32>
func.func @columns(%x: tensor<32x128xf32>) -> tensor<1x128xf32> {
  %0 = hpu.cluster (%a0 = %x) : (tensor<32x128xf32>) -> (tensor<1x128xf32>) {
    %r = hpu.reduce_sum %a0 {axes = array<i64: 0>} : (tensor<32x128xf32>) -> tensor<1x128xf32>
    hpu.yield %r : tensor<1x128xf32>
  }
  return %0 : tensor<1x128xf32>
}
