// Two convolutions in a row, each cut along its rows: a slice of the second one waits only for the rows that it reads.
// RUN: hpu-opt %s --hpu-schedule --hpu-verify-schedule | FileCheck %s

// 32 rows in slices of 8. The second convolution's first slice reads rows 0 to 8, so the first two TPC slices, for which
// the MME has waited already (slice 3 above took over the ring slot of slice 1). Its second slice reads rows 7 to 16:
// three TPC slices. From the third slice on it is its own ring that makes it wait.
// CHECK: sched.queue mme {
// CHECK-NEXT: sched.run @[[A:.*]] [0, 0, 0, 0] to [1, 8, 8, 32] slice 0 signal 0
// CHECK-NEXT: sched.run @[[A]] [0, 0, 8, 0] to [1, 8, 16, 32] slice 1 signal 0
// CHECK-NEXT: sched.run @[[A]] {{.*}} slice 2 wait [1, 1] signal 0
// CHECK-NEXT: sched.run @[[A]] {{.*}} slice 3 wait [1, 2] signal 0
// CHECK-NEXT: sched.run @[[B:.*]] [0, 0, 0, 0] to [1, 8, 8, 32] slice 0 signal 0
// CHECK-NEXT: sched.run @[[B]] [0, 0, 8, 0] to [1, 8, 16, 32] slice 1 wait [1, 3] signal 0
// CHECK-NEXT: sched.run @[[B]] {{.*}} slice 2 wait [1, 5] signal 0
// CHECK-NEXT: sched.run @[[B]] {{.*}} slice 3 wait [1, 6] signal 0
func.func @main(%x: tensor<1x3x32x32xf32>) -> tensor<1x8x32x32xf32> attributes {hpu.sram = 65536 : i64, hpu.workspace = 32768 : i64} {
  %w = hpu.constant dense<0.5> : tensor<8x3x3x3xf32> : tensor<8x3x3x3xf32>
  %v = hpu.constant dense<0.5> : tensor<8x8x3x3xf32> : tensor<8x8x3x3xf32>
  %0 = hpu.bundle (%a = %x, %b = %w) {hpu.buffers = array<i64: 3, 0>, hpu.ring = array<i64: 0, 2, 2, 8192>, tile = #hpu.tile<[1, 8, 8, 32], slots = 2>} : (tensor<1x3x32x32xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x32x32xf32, #hpu.layout<order = [0, 2, 3, 1]>> {
    %2 = hpu.conv2d %a, %b {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, groups = 1 : i64} : (tensor<1x3x32x32xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x32x32xf32>
    %3 = hpu.relu %2 : (tensor<1x8x32x32xf32>) -> tensor<1x8x32x32xf32, #hpu.layout<order = [0, 2, 3, 1]>>
    hpu.yield %3 : tensor<1x8x32x32xf32, #hpu.layout<order = [0, 2, 3, 1]>>
  }
  %1 = hpu.bundle (%a = %0, %b = %v) {hpu.buffers = array<i64: 1, 0>, hpu.ring = array<i64: 16384, 2, 2, 8192>, tile = #hpu.tile<[1, 8, 8, 32], slots = 2>} : (tensor<1x8x32x32xf32, #hpu.layout<order = [0, 2, 3, 1]>>, tensor<8x8x3x3xf32>) -> tensor<1x8x32x32xf32> {
    %2 = hpu.conv2d %a, %b {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, groups = 1 : i64} : (tensor<1x8x32x32xf32, #hpu.layout<order = [0, 2, 3, 1]>>, tensor<8x8x3x3xf32>) -> tensor<1x8x32x32xf32>
    %3 = hpu.relu %2 : (tensor<1x8x32x32xf32>) -> tensor<1x8x32x32xf32>
    hpu.yield %3 : tensor<1x8x32x32xf32>
  }
  return %1 : tensor<1x8x32x32xf32>
}
