// Every kind of op and attribute prints as it parses.
// RUN: hpu-opt %s | hpu-opt | FileCheck %s
// RUN: hpu-opt %s --mlir-print-op-generic | hpu-opt | FileCheck %s
// RUN: hpu-opt %s --emit-bytecode | hpu-opt | FileCheck %s

// CHECK-LABEL: func.func @layouts(
// CHECK-SAME: tensor<2x3x4x5xf32, #hpu.layout<order = [0, 2, 3, 1]>>
// CHECK-SAME: tensor<?x3xf32, #hpu.layout<symbols = ["batch", ""]>>
// CHECK-SAME: tensor<?x3xf32, #hpu.layout<order = [1, 0], symbols = ["batch", ""]>>
func.func @layouts(%a: tensor<2x3x4x5xf32, #hpu.layout<order = [0, 2, 3, 1]>>, %b: tensor<?x3xf32, #hpu.layout<symbols = ["batch", ""]>>, %c: tensor<?x3xf32, #hpu.layout<order = [1, 0], symbols = ["batch", ""]>>) {
  return
}

// CHECK-LABEL: func.func @ops(
// CHECK: hpu.constant dense<1.000000e+00> : tensor<4xf32> : tensor<4xf32>
// CHECK: hpu.leaky_relu %{{.*}} {alpha = 1.000000e-02 : f64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
// CHECK: hpu.less %{{.*}}, %{{.*}} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xi1>
// CHECK: hpu.where %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x4xi1>, tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
// CHECK: hpu.reduce_mean %{{.*}} {axes = array<i64: 1>, keepdims = false} : (tensor<2x4xf32>) -> tensor<2xf32>
// CHECK: hpu.resize %{{.*}} {coordinates = 0 : i32, mode = 1 : i32, scales = array<f64: 2.000000e+00, 2.000000e+00>, sizes = array<i64: 4, 8>} : (tensor<1x1x2x4xf32>) -> tensor<1x1x4x8xf32>
// CHECK: hpu.bitcast %{{.*}} {to = ui32} : (tensor<2x4xf32>) -> tensor<2x4xui32>
// CHECK: hpu.relayout %{{.*}} : (tensor<2x4xf32>) -> tensor<2x4xf32, #hpu.layout<order = [1, 0]>>
func.func @ops(%x: tensor<2x4xf32>) -> tensor<2xf32> {
  %c = hpu.constant dense<1.0> : tensor<4xf32> : tensor<4xf32>
  %0 = hpu.leaky_relu %x {alpha = 0.01 : f64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = hpu.less %0, %c : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xi1>
  %2 = hpu.where %1, %0, %c : (tensor<2x4xi1>, tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %3 = hpu.reduce_mean %2 {axes = array<i64: 1>, keepdims = false} : (tensor<2x4xf32>) -> tensor<2xf32>
  %4 = hpu.reshape %x {shape = array<i64: 1, 1, 2, 4>} : (tensor<2x4xf32>) -> tensor<1x1x2x4xf32>
  %5 = hpu.resize %4 {coordinates = 0 : i32, mode = 1 : i32, scales = array<f64: 2.0, 2.0>, sizes = array<i64: 4, 8>} : (tensor<1x1x2x4xf32>) -> tensor<1x1x4x8xf32>
  %6 = hpu.bitcast %x {to = ui32} : (tensor<2x4xf32>) -> tensor<2x4xui32>
  %7 = hpu.relayout %x : (tensor<2x4xf32>) -> tensor<2x4xf32, #hpu.layout<order = [1, 0]>>
  return %3 : tensor<2xf32>
}

// CHECK-LABEL: func.func @units(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>, %[[W:.*]]: tensor<8x8xf32>
// CHECK: %[[B:.*]]:2 = hpu.bundle (%[[A0:.*]] = %[[X]], %[[A1:.*]] = %[[W]]) {tile = #hpu.tile<[2, 8], slots = 2>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
// CHECK-NEXT: hpu.matmul %[[A0]], %[[A1]]
// CHECK: hpu.yield %{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<4x8xf32>
// CHECK: hpu.cluster (%{{.*}} = %[[B]]#0) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
func.func @units(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %0:2 = hpu.bundle (%a = %x, %b = %w) {tile = #hpu.tile<[2, 8], slots = 2>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    %2 = hpu.matmul %a, %b : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %3 = hpu.relu %2 : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %4 = hpu.neg %3 : (tensor<4x8xf32>) -> tensor<4x8xf32>
    hpu.yield %4, %3 : tensor<4x8xf32>, tensor<4x8xf32>
  }
  %1 = hpu.cluster (%a = %0#0) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
    %2 = hpu.softmax %a {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    hpu.yield %2 : tensor<4x8xf32>
  }
  return %1 : tensor<4x8xf32>
}

// CHECK-LABEL: sched.program @main signals 3 {
// CHECK: sched.section input 32 "x" : tensor<8xf32>
// CHECK: sched.constant 2 + 256 view 1 [4, 2] [1, 4] packed dense<{{.*}}> : tensor<3x3xf32>
// CHECK: sched.mme @m conv2d a <0 + 0 : f32, sizes = [1, 1, 4, 4], strides = [16, 16, 4, 1]> b <2 + 0 : f32> c <4 + 0 : f32, sizes = [1, 1, 4, 4], strides = [16, 16, 4, 1], ring = [2, 2, 512]> {dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>}
// CHECK: sched.dma @d src <0 + 0 : bf16, sizes = [4], strides = [1]> dst <1 + 64 : bf16, sizes = [4], strides = [2]>
// CHECK: sched.queue dma {
// CHECK-NEXT: sched.run @d [0] to [4] slice 0 wait [0, 1, 1, 2] signal 2
sched.program @main signals 3 {
  sched.section input 32 "x" : tensor<8xf32>
  sched.constant 2 + 256 view 1 [4, 2] [1, 4] packed dense<0.5> : tensor<3x3xf32>
  sched.mme @m conv2d a <0 + 0 : f32, sizes = [1, 1, 4, 4], strides = [16, 16, 4, 1]> b <2 + 0 : f32> c <4 + 0 : f32, sizes = [1, 1, 4, 4], strides = [16, 16, 4, 1], ring = [2, 2, 512]> {dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>}
  sched.dma @d src <0 + 0 : bf16, sizes = [4], strides = [1]> dst <1 + 64 : bf16, sizes = [4], strides = [2]>
  sched.queue dma {
    sched.run @d [0] to [4] slice 0 wait [0, 1, 1, 2] signal 2
  }
}

// CHECK-LABEL: func.func @flow(
// CHECK: %[[L:.*]]:2 = hpu.loop %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {collected_backwards = array<i1: true>, operandSegmentSizes = array<i32: 0, 1, 1, 1, 1>, scanned_backwards = array<i1: false>, trips = 5 : i64} : (tensor<i1>, tensor<4xf32>, tensor<5x4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<5xf32>) {
// CHECK: ^bb0(%{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xf32>):
// CHECK: hpu.yield %{{.*}}, %{{.*}}, %{{.*}} : tensor<i1>, tensor<4xf32>, tensor<f32>
// CHECK: hpu.if %{{.*}}, %[[L]]#0 : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32> {
// CHECK: }, {
func.func @flow(%go: tensor<i1>, %x: tensor<4xf32>, %xs: tensor<5x4xf32>) -> tensor<4xf32> {
  %0:2 = hpu.loop %go, %x, %xs, %x {operandSegmentSizes = array<i32: 0, 1, 1, 1, 1>, trips = 5 : i64, scanned_backwards = array<i1: false>, collected_backwards = array<i1: true>} : (tensor<i1>, tensor<4xf32>, tensor<5x4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<5xf32>) {
  ^bb0(%v: tensor<4xf32>, %slice: tensor<4xf32>, %same: tensor<4xf32>):
    %1 = hpu.add %v, %slice : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = hpu.reduce_sum %1 {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
    %3 = hpu.reduce_sum %same {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
    %4 = hpu.greater %2, %3 : (tensor<f32>, tensor<f32>) -> tensor<i1>
    hpu.yield %4, %1, %2 : tensor<i1>, tensor<4xf32>, tensor<f32>
  }
  %5 = hpu.if %go, %0#0 : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %6 = hpu.relu %a : (tensor<4xf32>) -> tensor<4xf32>
    hpu.yield %6 : tensor<4xf32>
  }, {
  ^bb0(%a: tensor<4xf32>):
    hpu.yield %a : tensor<4xf32>
  }
  return %5 : tensor<4xf32>
}
