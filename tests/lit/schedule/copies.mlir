// Copies are DMA commands, or TPC kernels where a target's graphs have no DMA.
// RUN: hpu-opt %s --hpu-fuse --hpu-layout --hpu-tile --hpu-memory="optimize=false" --hpu-schedule --hpu-verify-schedule | FileCheck %s
// RUN: hpu-opt %s --hpu-fuse --hpu-layout --hpu-tile="target=gaudi3" --hpu-memory="target=gaudi3 optimize=false" --hpu-schedule="target=gaudi3" --hpu-verify-schedule | FileCheck %s --check-prefix=GAUDI3

// Each input of a concat that its producer does not write in place is one copy into its part of the result; a slice of x is only an offset and strides.
// CHECK: sched.dma @[[A:.*]] src <0 + 4 : f32, sizes = [4, 2], strides = [8, 2]> dst <2 + 0 : f32, sizes = [4, 2], strides = [5, 1]>
// CHECK: sched.dma @[[B:.*]] src <{{[0-9]}} + {{[0-9]+}} : f32, sizes = [4, 3], strides = [3, 1]> dst <2 + 8 : f32, sizes = [4, 3], strides = [5, 1]>
// CHECK: sched.queue tpc {
// CHECK-NEXT: sched.run {{.*}} signal 1
// CHECK: sched.queue dma {
// CHECK-NEXT: sched.run @[[A]] [0, 0] to [4, 2] slice 0 signal 2
// CHECK-NEXT: sched.run @[[B]] [0, 0] to [4, 3] slice 0 wait [1, 1] signal 2
// GAUDI3-NOT: sched.dma
// GAUDI3: sched.kernel
// GAUDI3: hpu.concat
// GAUDI3: sched.queue dma {
// GAUDI3-NEXT: {{^ *[}]$}}
func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x3xf32>) -> tensor<4x5xf32> {
  %0 = hpu.slice %x {starts = array<i64: 0, 1>, sizes = array<i64: 4, 2>, steps = array<i64: 1, 2>} : (tensor<4x8xf32>) -> tensor<4x2xf32>
  %1 = hpu.relu %y : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %2 = hpu.concat %0, %1 {axis = 1 : i64} : (tensor<4x2xf32>, tensor<4x3xf32>) -> tensor<4x5xf32>
  return %2 : tensor<4x5xf32>
}
