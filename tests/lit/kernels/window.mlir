// RUN: hpu-opt %s --hpu-kernel-ir | FileCheck %s

// A depthwise convolution: where windows are whole along the row, four outputs share the weights; at the edges
// the taps' loops are shorter. There are no masks for padding.
// CHECK-LABEL: // kernel depthwise
// CHECK: scf.while
// CHECK: scf.if
// CHECK: iter_args({{.*}}) -> (vector<64xf32>, vector<64xf32>, vector<64xf32>, vector<64xf32>)
// CHECK-COUNT-4: math.fma
// CHECK: } else {
// CHECK: iter_args({{.*}}) -> (vector<64xf32>)
// CHECK: math.fma
// CHECK-NOT: arith.mulf
#cl = #hpu.layout<order = [0, 2, 3, 1]>
#w = #hpu.layout<order = [1, 2, 3, 0]>
func.func @depthwise(%x: tensor<1x64x14x14xf32, #cl>, %k: tensor<64x1x3x3xf32, #w>) -> tensor<1x64x14x14xf32, #cl> {
  %0 = hpu.cluster (%a0 = %x, %a1 = %k) : (tensor<1x64x14x14xf32, #cl>, tensor<64x1x3x3xf32, #w>) -> (tensor<1x64x14x14xf32, #cl>) {
    %r = hpu.conv2d %a0, %a1 {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, groups = 64 : i64}
       : (tensor<1x64x14x14xf32, #cl>, tensor<64x1x3x3xf32, #w>) -> tensor<1x64x14x14xf32, #cl>
    hpu.yield %r : tensor<1x64x14x14xf32, #cl>
  }
  return %0 : tensor<1x64x14x14xf32, #cl>
}

// CHECK-LABEL: // kernel pool
// CHECK-NOT: scf.while
// CHECK: iter_args({{.*}}) -> (vector<64xf32>)
// CHECK: arith.cmpf uno
func.func @pool(%x: tensor<1x64x14x14xf32, #cl>) -> tensor<1x64x7x7xf32, #cl> {
  %0 = hpu.cluster (%a0 = %x) : (tensor<1x64x14x14xf32, #cl>) -> (tensor<1x64x7x7xf32, #cl>) {
    %r = hpu.max_pool2d %a0 {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>}
       : (tensor<1x64x14x14xf32, #cl>) -> tensor<1x64x7x7xf32, #cl>
    hpu.yield %r : tensor<1x64x7x7xf32, #cl>
  }
  return %0 : tensor<1x64x7x7xf32, #cl>
}
