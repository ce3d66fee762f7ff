// A packed product says so in its descriptor, and the constant section has room for its packed weights.
// RUN: hpu-opt %s --split-input-file --hpu-schedule --hpu-verify-schedule | FileCheck %s

// 32x32 weights of bf16 are 4096 bytes in panels of 64 columns; packed by 4, 128x128, 32768.
// CHECK: sched.section constant 36864
// CHECK: sched.mme @{{.*}} gemm a {{.*}} packed c {{.*}} packing_factor = 4 : i64
func.func @main(%x: tensor<4096x32xbf16>) -> tensor<4096x32xbf16> attributes {hpu.sram = 0 : i64, hpu.workspace = 0 : i64} {
  %w = hpu.constant dense<0.5> : tensor<32x32xbf16> : tensor<32x32xbf16>
  %0 = hpu.bundle (%a = %x, %b = %w) {hpu.buffers = array<i64: 1, 0>} : (tensor<4096x32xbf16>, tensor<32x32xbf16>) -> tensor<4096x32xbf16> {
    %1 = hpu.matmul %a, %b {hpu.packing = 4 : i64} : (tensor<4096x32xbf16>, tensor<32x32xbf16>) -> tensor<4096x32xbf16>
    hpu.yield %1 : tensor<4096x32xbf16>
  }
  return %0 : tensor<4096x32xbf16>
}

// -----

// Within a wider tensor rows do not lie one behind the other: it is not packed after all.
// CHECK: sched.section constant 4096
// CHECK: sched.mme
// CHECK-NOT: packing_factor
// CHECK: sched.queue
func.func @main(%x: tensor<4096x32xbf16>) -> tensor<4096x64xbf16> attributes {hpu.sram = 0 : i64, hpu.workspace = 0 : i64} {
  %w = hpu.constant dense<0.5> : tensor<32x32xbf16> : tensor<32x32xbf16>
  %0 = hpu.bundle (%a = %x, %b = %w) {hpu.buffers = array<i64: 1, 0>, hpu.strides = [array<i64: 64, 1>]} : (tensor<4096x32xbf16>, tensor<32x32xbf16>) -> tensor<4096x32xbf16> {
    %1 = hpu.matmul %a, %b {hpu.packing = 4 : i64} : (tensor<4096x32xbf16>, tensor<32x32xbf16>) -> tensor<4096x32xbf16>
    hpu.yield %1 : tensor<4096x32xbf16>
  }
  %2 = hpu.concat %0, %x {axis = 1 : i64, hpu.buffers = array<i64: 1, 0>} : (tensor<4096x32xbf16>, tensor<4096x32xbf16>) -> tensor<4096x64xbf16>
  return %2 : tensor<4096x64xbf16>
}
