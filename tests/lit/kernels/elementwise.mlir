// RUN: hpu-opt %s --hpu-kernel-ir | FileCheck %s
// RUN: hpu-opt %s --hpu-kernel-ir=cpu=x86-64-v3 | FileCheck %s --check-prefix=V3

// A chain is one loop nest: the bias is loaded with the lanes, nothing is stored in between, and what is left of a
// row is done with a mask. The vectors are those of a TPC: 64 lanes of f32.
// CHECK-LABEL: // kernel chain
// CHECK: scf.for
// CHECK: scf.for {{.*}} step %c64_i64
// CHECK: %[[X:.*]] = llvm.load {{.*}} -> vector<64xf32>
// CHECK: %[[B:.*]] = llvm.load {{.*}} -> vector<64xf32>
// CHECK: %[[S:.*]] = arith.addf %[[X]], %[[B]] fastmath<contract> : vector<64xf32>
// CHECK-NOT: llvm.store
// CHECK: arith.select
// CHECK: llvm.store {{.*}} : vector<64xf32>
// CHECK: hpu.trips = 3.000000e+00
// CHECK: scf.if
// CHECK: llvm.intr.masked.load
// CHECK: llvm.intr.masked.store
// CHECK-NOT: llvm.call
// V3-LABEL: // kernel chain
// V3: scf.for {{.*}} step %c32_i64
// V3: llvm.load {{.*}} -> vector<32xf32>
func.func @chain(%x: tensor<8x160xf32>, %b: tensor<160xf32>) -> tensor<8x160xf32> {
  %0 = hpu.cluster (%a0 = %x, %a1 = %b) : (tensor<8x160xf32>, tensor<160xf32>) -> (tensor<8x160xf32>) {
    %s = hpu.add %a0, %a1 : (tensor<8x160xf32>, tensor<160xf32>) -> tensor<8x160xf32>
    %r = hpu.relu %s : (tensor<8x160xf32>) -> tensor<8x160xf32>
    hpu.yield %r : tensor<8x160xf32>
  }
  return %0 : tensor<8x160xf32>
}

// Operands that lie densely one row after another are one long row when the slice has whole rows.
// CHECK-LABEL: // kernel merged
// CHECK: %[[WHOLE:.*]] = arith.andi
// CHECK: %[[LOW:.*]] = arith.select %[[WHOLE]]
// CHECK: %[[HIGH:.*]] = arith.select %[[WHOLE]]
// CHECK: hpu.trips = 4.000000e+01
func.func @merged(%x: tensor<32x80xf32>) -> tensor<32x80xf32> {
  %0 = hpu.cluster (%a0 = %x) : (tensor<32x80xf32>) -> (tensor<32x80xf32>) {
    %r = hpu.neg %a0 : (tensor<32x80xf32>) -> tensor<32x80xf32>
    hpu.yield %r : tensor<32x80xf32>
  }
  return %0 : tensor<32x80xf32>
}

// bf16 is widened after the load, computed in f32 and rounded once.
// CHECK-LABEL: // kernel narrow
// CHECK: llvm.load {{.*}} -> vector<64xi16>
// CHECK: arith.extui {{.*}} vector<64xi16> to vector<64xi32>
// CHECK: arith.mulf {{.*}} vector<64xf32>
// CHECK: arith.addf {{.*}} vector<64xf32>
// CHECK: arith.trunci {{.*}} vector<64xi32> to vector<64xi16>
// CHECK: llvm.store {{.*}} vector<64xi16>
func.func @narrow(%x: tensor<256xbf16>, %y: tensor<256xbf16>) -> tensor<256xbf16> {
  %0 = hpu.cluster (%a0 = %x, %a1 = %y) : (tensor<256xbf16>, tensor<256xbf16>) -> (tensor<256xbf16>) {
    %m = hpu.mul %a0, %a1 : (tensor<256xbf16>, tensor<256xbf16>) -> tensor<256xbf16>
    %r = hpu.add %m, %a0 : (tensor<256xbf16>, tensor<256xbf16>) -> tensor<256xbf16>
    hpu.yield %r : tensor<256xbf16>
  }
  return %0 : tensor<256xbf16>
}

// Lanes lie along the channels where these are contiguous; the bias of a channel is a vector, a scale a scalar
// that is loaded once.
// CHECK-LABEL: // kernel channels_last
// CHECK: %[[SCALE:.*]] = llvm.load {{.*}} -> f32
// CHECK: scf.for
// CHECK: vector.broadcast %[[SCALE]] : f32 to vector<64xf32>
// CHECK-NOT: gather
func.func @channels_last(%x: tensor<1x64x7x7xf32, #hpu.layout<order = [0, 2, 3, 1]>>, %b: tensor<64x1x1xf32>, %s: tensor<f32>)
    -> tensor<1x64x7x7xf32, #hpu.layout<order = [0, 2, 3, 1]>> {
  %0 = hpu.cluster (%a0 = %x, %a1 = %b, %a2 = %s) : (tensor<1x64x7x7xf32, #hpu.layout<order = [0, 2, 3, 1]>>, tensor<64x1x1xf32>, tensor<f32>) -> (tensor<1x64x7x7xf32, #hpu.layout<order = [0, 2, 3, 1]>>) {
    %m = hpu.mul %a0, %a2 : (tensor<1x64x7x7xf32, #hpu.layout<order = [0, 2, 3, 1]>>, tensor<f32>) -> tensor<1x64x7x7xf32, #hpu.layout<order = [0, 2, 3, 1]>>
    %r = hpu.add %m, %a1 : (tensor<1x64x7x7xf32, #hpu.layout<order = [0, 2, 3, 1]>>, tensor<64x1x1xf32>) -> tensor<1x64x7x7xf32, #hpu.layout<order = [0, 2, 3, 1]>>
    hpu.yield %r : tensor<1x64x7x7xf32, #hpu.layout<order = [0, 2, 3, 1]>>
  }
  return %0 : tensor<1x64x7x7xf32, #hpu.layout<order = [0, 2, 3, 1]>>
}

// Bits from memory and to memory need no conversion: fp8 codes are xored as they are.
// CHECK-LABEL: // kernel bits
// CHECK: %[[A:.*]] = llvm.load {{.*}} -> vector<64xi8>
// CHECK: %[[B:.*]] = llvm.load {{.*}} -> vector<64xi8>
// CHECK: %[[C:.*]] = arith.xori %[[A]], %[[B]] : vector<64xi8>
// CHECK: llvm.store %[[C]], {{.*}} vector<64xi8>
func.func @bits(%x: tensor<256xf8E5M2>, %y: tensor<256xi8>) -> tensor<256xf8E5M2> {
  %0 = hpu.cluster (%a0 = %x, %a1 = %y) : (tensor<256xf8E5M2>, tensor<256xi8>) -> (tensor<256xf8E5M2>) {
    %b = hpu.bitcast %a0 {to = i8} : (tensor<256xf8E5M2>) -> tensor<256xi8>
    %c = hpu.bit_xor %b, %a1 : (tensor<256xi8>, tensor<256xi8>) -> tensor<256xi8>
    %d = hpu.bitcast %c {to = f8E5M2} : (tensor<256xi8>) -> tensor<256xf8E5M2>
    hpu.yield %d : tensor<256xf8E5M2>
  }
  return %0 : tensor<256xf8E5M2>
}
