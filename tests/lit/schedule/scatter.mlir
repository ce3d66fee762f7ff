// What a scatter does not update has to be where its result lies: nothing is copied when its data is a result that
// nobody reads any more, or a state; an input, a constant, or what is read later is.
// RUN: hpu-opt %s --split-input-file --hpu-fuse --hpu-layout --hpu-tile --hpu-memory --hpu-verify-memory --hpu-schedule --hpu-verify-schedule | FileCheck %s
// RUN: hpu-opt %s --split-input-file --hpu-fuse --hpu-layout --hpu-tile="target=gaudi3" --hpu-memory="target=gaudi3" --hpu-verify-memory="target=gaudi3" --hpu-schedule="target=gaudi3" --hpu-verify-schedule | FileCheck %s --check-prefix=NODMA

// CHECK-LABEL: sched.program @main
// CHECK-NOT: sched.dma
// CHECK: hpu.scatter_nd
// CHECK-NOT: sched.dma
// CHECK: sched.queue mme
// NODMA-LABEL: sched.program @main
// NODMA-NOT: hpu.relayout
// NODMA: sched.queue mme
func.func @main(%x: tensor<8x64xf32>, %i: tensor<2x1xi64>, %u: tensor<2x64xf32>) -> tensor<8xf32> {
  %0 = hpu.tanh %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %1 = hpu.scatter_nd %0, %i, %u : (tensor<8x64xf32>, tensor<2x1xi64>, tensor<2x64xf32>) -> tensor<8x64xf32>
  %2 = hpu.reduce_sum %1 {axes = array<i64: 1>, keepdims = false} : (tensor<8x64xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}

// -----

// Two in a row over one result.
// CHECK-LABEL: sched.program @main
// CHECK-NOT: sched.dma
// CHECK: sched.queue mme
// NODMA-LABEL: sched.program @main
// NODMA-NOT: hpu.relayout
// NODMA: sched.queue mme
func.func @main(%x: tensor<8x64xf32>, %i: tensor<2x1xi64>, %u: tensor<2x64xf32>) -> tensor<8xf32> {
  %0 = hpu.tanh %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %1 = hpu.scatter_nd %0, %i, %u : (tensor<8x64xf32>, tensor<2x1xi64>, tensor<2x64xf32>) -> tensor<8x64xf32>
  %2 = hpu.scatter_nd %1, %i, %u {mode = 1 : i32} : (tensor<8x64xf32>, tensor<2x1xi64>, tensor<2x64xf32>) -> tensor<8x64xf32>
  %3 = hpu.reduce_sum %2 {axes = array<i64: 1>, keepdims = false} : (tensor<8x64xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}

// -----

// An input is the caller's.
// CHECK-LABEL: sched.program @main
// CHECK-COUNT-1: sched.dma @{{.*}} src <0 + 0 : f32, sizes = [8, 64], strides = [64, 1]> dst <3 + 0
// CHECK-NOT: sched.dma
// CHECK: sched.queue mme
// NODMA-LABEL: sched.program @main
// NODMA-COUNT-1: hpu.relayout
// NODMA-NOT: hpu.relayout
// NODMA: sched.queue mme
func.func @main(%x: tensor<8x64xf32>, %i: tensor<2x1xi64>, %u: tensor<2x64xf32>) -> tensor<8x64xf32> {
  %0 = hpu.scatter_nd %x, %i, %u : (tensor<8x64xf32>, tensor<2x1xi64>, tensor<2x64xf32>) -> tensor<8x64xf32>
  return %0 : tensor<8x64xf32>
}

// -----

// CHECK-LABEL: sched.program @main
// CHECK-COUNT-1: sched.dma
// CHECK-NOT: sched.dma
// CHECK: sched.queue mme
// NODMA-LABEL: sched.program @main
// NODMA-COUNT-1: hpu.relayout
// NODMA-NOT: hpu.relayout
// NODMA: sched.queue mme
func.func @main(%i: tensor<2x1xi64>, %u: tensor<2x64xf32>) -> tensor<8x64xf32> {
  %c = hpu.constant dense<0.5> : tensor<8x64xf32> : tensor<8x64xf32>
  %0 = hpu.scatter_nd %c, %i, %u : (tensor<8x64xf32>, tensor<2x1xi64>, tensor<2x64xf32>) -> tensor<8x64xf32>
  return %0 : tensor<8x64xf32>
}

// -----

// The product reads what was there before, and follows from what is there then.
// CHECK-LABEL: sched.program @main
// CHECK-COUNT-1: sched.dma
// CHECK-NOT: sched.dma
// CHECK: sched.queue mme
// NODMA-LABEL: sched.program @main
// NODMA-COUNT-1: hpu.relayout
// NODMA-NOT: hpu.relayout
// NODMA: sched.queue mme
func.func @main(%x: tensor<64x64xf32>, %i: tensor<2x1xi64>, %u: tensor<2x64xf32>) -> tensor<64x64xf32> {
  %0 = hpu.tanh %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = hpu.scatter_nd %0, %i, %u : (tensor<64x64xf32>, tensor<2x1xi64>, tensor<2x64xf32>) -> tensor<64x64xf32>
  %2 = hpu.matmul %1, %0 : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %2 : tensor<64x64xf32>
}

// -----

// A state: the kernel stores into section 3, which is the output and the input; the workspace stays empty.
// CHECK-LABEL: sched.program @main
// CHECK-NOT: sched.dma
// CHECK: sched.section workspace 0
// CHECK-NOT: sched.dma
// CHECK: sched.kernel {{.*}} outputs [#sched.operand<3 + 0 : f32, sizes = [8, 64], strides = [64, 1]>]
// CHECK-NOT: sched.dma
// CHECK: sched.queue mme
// NODMA-LABEL: sched.program @main
// NODMA-NOT: hpu.relayout
// NODMA: sched.queue mme
func.func @main(%x: tensor<8x64xf32> {hpu.state = 0 : i64, hpu.capacity = array<i64: 8, 64>}, %i: tensor<2x1xi64>, %u: tensor<2x64xf32>)
    -> (tensor<8x64xf32> {hpu.state = 0 : i64, hpu.capacity = array<i64: 8, 64>}) {
  %0 = hpu.scatter_nd %x, %i, %u : (tensor<8x64xf32>, tensor<2x1xi64>, tensor<2x64xf32>) -> tensor<8x64xf32>
  return %0 : tensor<8x64xf32>
}
