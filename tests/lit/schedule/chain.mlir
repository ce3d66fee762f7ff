// Two units that take turns are one bundle: the MME does slice i + 1 of the first product while the TPCs do slice i.
// RUN: hpu-opt %s --hpu-schedule --hpu-verify-schedule | FileCheck %s

// The batch is cut; the reader sees it as the left operand's first dimension.
// CHECK: sched.mme @[[QK:mme[0-9]+]] gemm {{.*}} c <{{.*}}sizes = [8, 256, 256]{{.*}}ring = [2, 0, 262144]>
// CHECK: sched.kernel @[[K:.*]] inputs [#sched.operand<{{.*}}ring = [2, 0, 262144]>] outputs [#sched.operand<[[P:[0-9]+ \+ [0-9]+]] : f32, sizes = [8, 256, 256], strides = [65536, 256, 1], ring = [2, 0, 262144]>]
// CHECK: sched.tpc @[[T:tpc[0-9]+]] @[[K]]
// CHECK: sched.mme @[[PV:mme[0-9]+]] gemm a <[[P]] : f32, sizes = [8, 256, 256], strides = [65536, 256, 1], ring = [2, 0, 262144]>
// CHECK: sched.bundle "bundle > bundle" [@[[QK]], @[[T]], @[[PV]]] slices 8
// CHECK: sched.queue mme {
// CHECK-NEXT: sched.run @[[QK]] [0, 0, 0] to [1, 256, 256] slice 0
// CHECK-NEXT: sched.run @[[QK]] [1, 0, 0] to [2, 256, 256] slice 1
// CHECK: sched.run @[[PV]] [0, 0, 0] to [1, 256, 64] slice 0 wait [1, 1]
// CHECK: sched.run @[[PV]] [7, 0, 0] to [8, 256, 64] slice 7 wait [1, 8]
// CHECK: sched.queue tpc {
// CHECK-NEXT: sched.run @[[T]] [0, 0, 0] to [1, 256, 256] slice 0 wait [0, 1]
func.func @main(%q: tensor<8x256x64xf32>, %k: tensor<8x64x256xf32>, %v: tensor<8x256x64xf32>) -> tensor<8x256x64xf32> attributes {hpu.sram = 1048576 : i64, hpu.workspace = 0 : i64} {
  %0 = hpu.bundle (%a = %q, %b = %k) {hpu.buffers = array<i64: 6, 524288>, hpu.chain = array<i64: 0, 2>, hpu.chain_ring = array<i64: 524288, 2, 0, 262144>, hpu.ring = array<i64: 0, 2, 0, 262144>, hpu.strides = [array<i64: 65536, 256, 1>], tile = #hpu.tile<[1, 256, 256], slots = 2>} : (tensor<8x256x64xf32>, tensor<8x64x256xf32>) -> tensor<8x256x256xf32> {
    %2 = hpu.matmul %a, %b : (tensor<8x256x64xf32>, tensor<8x64x256xf32>) -> tensor<8x256x256xf32>
    %3 = hpu.softmax %2 {axis = 2 : i64} : (tensor<8x256x256xf32>) -> tensor<8x256x256xf32>
    hpu.yield %3 : tensor<8x256x256xf32>
  }
  %1 = hpu.bundle (%a = %0, %b = %v) {hpu.buffers = array<i64: 3, 0>, tile = #hpu.tile<[1, 256, 64]>} : (tensor<8x256x256xf32>, tensor<8x256x64xf32>) -> tensor<8x256x64xf32> {
    %2 = hpu.matmul %a, %b : (tensor<8x256x256xf32>, tensor<8x256x64xf32>) -> tensor<8x256x64xf32>
    hpu.yield %2 : tensor<8x256x64xf32>
  }
  return %1 : tensor<8x256x64xf32>
}
