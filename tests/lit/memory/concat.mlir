// Concatenations are written in place by the producers of their parts, through strides, and cost no command.
// RUN: hpu-opt %s --split-input-file --hpu-fuse="optimize=false" --hpu-layout --hpu-tile --hpu-memory --hpu-verify-memory | FileCheck %s
// RUN: hpu-opt %s --split-input-file --hpu-fuse="optimize=false" --hpu-layout --hpu-tile --hpu-memory --hpu-verify-memory --hpu-schedule --hpu-verify-schedule | FileCheck %s --check-prefix=COMMANDS
// RUN: hpu-opt %s --split-input-file --hpu-fuse="optimize=false" --hpu-layout --hpu-tile="target=gaudi3" --hpu-memory="target=gaudi3" --hpu-verify-memory="target=gaudi3" --hpu-schedule="target=gaudi3" --hpu-verify-schedule | FileCheck %s --check-prefix=NODMA

// Side by side along the last dimension: rows of 128 elements, the second part 64 elements further on. The input is not
// ours to place: it is copied, and nothing else.
// CHECK-LABEL: func.func @main(
// CHECK: hpu.buffers = array<i64: 4, 0>, hpu.strides = [array<i64: 192, 1>]
// CHECK-NEXT: hpu.tanh
// CHECK: hpu.buffers = array<i64: 4, 256>, hpu.strides = [array<i64: 192, 1>]
// CHECK-NEXT: hpu.relu
// CHECK: hpu.concat {{.*}}hpu.buffers = array<i64: 4, 0>}
// COMMANDS-LABEL: sched.program @main
// COMMANDS-COUNT-1: sched.dma
// COMMANDS-NOT: sched.dma
// COMMANDS: sched.queue mme
// NODMA-LABEL: sched.program @main
// NODMA-NOT: sched.dma
// NODMA: hpu.relayout
// NODMA-NOT: hpu.concat
// NODMA: sched.queue mme
func.func @main(%x: tensor<8x64xf32>, %w: tensor<192x32xf32>) -> tensor<8x32xf32> {
  %0 = hpu.tanh %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %1 = hpu.relu %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %2 = hpu.concat %0, %1, %x {axis = 1 : i64} : (tensor<8x64xf32>, tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x192xf32>
  %3 = hpu.matmul %2, %w : (tensor<8x192xf32>, tensor<192x32xf32>) -> tensor<8x32xf32>
  return %3 : tensor<8x32xf32>
}

// -----

// A dense block: every concatenation is the beginning of the next one, so all of them lie in the last one.
// CHECK-LABEL: func.func @main(
// CHECK: hpu.buffers = array<i64: 5, 0>, hpu.strides = [array<i64: 192, 1>]
// CHECK-NEXT: hpu.relu
// CHECK: hpu.buffers = array<i64: 5, 256>, hpu.strides = [array<i64: 192, 1>]
// CHECK-NEXT: hpu.matmul
// CHECK: hpu.concat {{.*}}hpu.buffers = array<i64: 5, 0>, hpu.strides = [array<i64: 192, 1>]
// CHECK: hpu.buffers = array<i64: 5, 512>, hpu.strides = [array<i64: 192, 1>]
// CHECK-NEXT: hpu.matmul
// CHECK: hpu.concat {{.*}}hpu.buffers = array<i64: 5, 0>}
// COMMANDS-LABEL: sched.program @main
// COMMANDS-NOT: sched.dma
// COMMANDS: sched.queue mme
func.func @main(%x: tensor<8x64xf32>, %v: tensor<64x64xf32>, %w: tensor<128x64xf32>) -> tensor<1x8xf32> {
  %0 = hpu.relu %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %1 = hpu.matmul %0, %v : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %2 = hpu.concat %0, %1 {axis = 1 : i64} : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x128xf32>
  %3 = hpu.matmul %2, %w : (tensor<8x128xf32>, tensor<128x64xf32>) -> tensor<8x64xf32>
  %4 = hpu.concat %0, %1, %3 {axis = 1 : i64} : (tensor<8x64xf32>, tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x192xf32>
  %5 = hpu.reduce_max %4 {axes = array<i64: 1>, keepdims = false} : (tensor<8x192xf32>) -> tensor<8xf32>
  %6 = hpu.reshape %5 {shape = array<i64: 1, 8>} : (tensor<8xf32>) -> tensor<1x8xf32>
  return %6 : tensor<1x8xf32>
}

// -----

// A part twice can be in one place only; a part of which a reshape needs rows side by side stays where it is.
// CHECK-LABEL: func.func @main(
// CHECK: hpu.strides
// CHECK-NEXT: hpu.tanh
// CHECK-NOT: hpu.strides
// CHECK: hpu.relu
// CHECK: hpu.concat
// COMMANDS-LABEL: sched.program @main
// COMMANDS-COUNT-2: sched.dma
// COMMANDS-NOT: sched.dma
// COMMANDS: sched.queue mme
func.func @main(%x: tensor<8x64xf32>) -> (tensor<8xf32>, tensor<4x32xf32>) {
  %0 = hpu.tanh %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %1 = hpu.relu %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %2 = hpu.concat %0, %0, %1 {axis = 1 : i64} : (tensor<8x64xf32>, tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x192xf32>
  %3 = hpu.reduce_max %2 {axes = array<i64: 1>, keepdims = false} : (tensor<8x192xf32>) -> tensor<8xf32>
  %5 = hpu.reshape %1 {shape = array<i64: 512>} : (tensor<8x64xf32>) -> tensor<512xf32>
  %6 = hpu.exp %5 : (tensor<512xf32>) -> tensor<512xf32>
  %7 = hpu.slice %6 {starts = array<i64: 0>, sizes = array<i64: 128>, steps = array<i64: 1>} : (tensor<512xf32>) -> tensor<128xf32>
  %8 = hpu.reshape %7 {shape = array<i64: 4, 32>} : (tensor<128xf32>) -> tensor<4x32xf32>
  %9 = hpu.neg %8 : (tensor<4x32xf32>) -> tensor<4x32xf32>
  return %3, %9 : tensor<8xf32>, tensor<4x32xf32>
}
