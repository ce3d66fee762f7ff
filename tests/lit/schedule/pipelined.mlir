// A double-buffered bundle: the MME is at most two slices ahead of the TPC.
// RUN: hpu-opt %s --hpu-schedule --hpu-verify-schedule | FileCheck %s

// Sections: input, output, constants (packed weights, bias), workspace, SRAM.
// CHECK: sched.program @main signals 3 {
// CHECK-NEXT: sched.section input 2097152 "x" : tensor<1024x512xf32>
// CHECK-NEXT: sched.section output 1048576 "y" : tensor<1024x256xf32>
// CHECK-NEXT: sched.section constant 525312
// CHECK-NEXT: sched.section workspace 0
// CHECK-NEXT: sched.section sram 524288
// CHECK: sched.constant 2 + 0 view 0 [512, 256] [256, 1] packed
// CHECK: sched.mme @[[M:.*]] gemm a <0 + 0 : f32, sizes = [1024, 512], strides = [512, 1]>
// CHECK-SAME: packed c <4 + 0 : f32, sizes = [1024, 256], strides = [256, 1], ring = [2, 0, 262144]>
// CHECK-SAME: name = "fc+bias", sources = {{\[\[}}"fc", "matmul"], ["bias", "add"]]
// CHECK: sched.kernel @[[K:.*]] inputs [#sched.operand<4 + 0 : f32, sizes = [1024, 256], strides = [256, 1], ring = [2, 0, 262144]>, #sched.operand<2 + 524288 : f32, sizes = [256], strides = [1]>] outputs [#sched.operand<1 + 0
// CHECK-NEXT: ^bb0(%[[P:.*]]: tensor<1024x256xf32>, %[[B:.*]]: tensor<256xf32>):
// CHECK-NEXT: %[[S:.*]] = hpu.add %[[P]], %[[B]]
// CHECK-NEXT: hpu.yield %[[S]]
// CHECK: sched.tpc @[[T:.*]] @[[K]]
// CHECK: sched.bundle "fc+bias" [@[[M]], @[[T]]] slices 4
// CHECK: sched.queue mme {
// CHECK-NEXT: sched.run @[[M]] [0, 0] to [256, 256] slice 0 signal 0 {bundle = 0 : i64}
// CHECK-NEXT: sched.run @[[M]] [256, 0] to [512, 256] slice 1 signal 0
// CHECK-NEXT: sched.run @[[M]] [512, 0] to [768, 256] slice 2 wait [1, 1] signal 0
// CHECK-NEXT: sched.run @[[M]] [768, 0] to [1024, 256] slice 3 wait [1, 2] signal 0
// CHECK-NEXT: {{^ *[}]$}}
// CHECK-NEXT: sched.queue tpc {
// CHECK-NEXT: sched.run @[[T]] [0, 0] to [256, 256] slice 0 wait [0, 1] signal 1
// CHECK-NEXT: sched.run @[[T]] [256, 0] to [512, 256] slice 1 wait [0, 2] signal 1
// CHECK-NEXT: sched.run @[[T]] [512, 0] to [768, 256] slice 2 wait [0, 3] signal 1
// CHECK-NEXT: sched.run @[[T]] [768, 0] to [1024, 256] slice 3 wait [0, 4] signal 1
// CHECK-NEXT: {{^ *[}]$}}
// CHECK-NEXT: sched.queue dma {
// CHECK-NEXT: {{^ *[}]$}}
func.func @main(%x: tensor<1024x512xf32> {hpu.name = "x"}) -> (tensor<1024x256xf32> {hpu.name = "y"}) attributes {hpu.sram = 524288 : i64, hpu.workspace = 0 : i64} {
  %w = hpu.constant dense<0.5> : tensor<512x256xf32> : tensor<512x256xf32>
  %b = hpu.constant dense<1.0> : tensor<256xf32> : tensor<256xf32>
  %0 = hpu.bundle (%a = %x, %c = %w, %d = %b) {hpu.buffers = array<i64: 1, 0>, hpu.ring = array<i64: 0, 2, 0, 262144>, tile = #hpu.tile<[256, 256], slots = 2>} : (tensor<1024x512xf32>, tensor<512x256xf32>, tensor<256xf32>) -> tensor<1024x256xf32> {
    %1 = hpu.matmul %a, %c : (tensor<1024x512xf32>, tensor<512x256xf32>) -> tensor<1024x256xf32> loc("fc")
    %2 = hpu.add %1, %d : (tensor<1024x256xf32>, tensor<256xf32>) -> tensor<1024x256xf32> loc("bias")
    hpu.yield %2 : tensor<1024x256xf32>
  }
  return %0 : tensor<1024x256xf32>
}
