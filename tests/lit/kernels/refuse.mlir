// RUN: not hpu-opt %s --hpu-kernel-ir --split-input-file 2>&1 | FileCheck %s

// CHECK: kernel whole: {{.*}}erf_inv{{.*}} in a TPC kernel: not defined for i64
func.func @whole(%x: tensor<8xi64>) -> tensor<8xi64> {
  %0 = hpu.cluster (%a0 = %x) : (tensor<8xi64>) -> (tensor<8xi64>) {
    %r = hpu.erf_inv %a0 : (tensor<8xi64>) -> tensor<8xi64>
    hpu.yield %r : tensor<8xi64>
  }
  return %0 : tensor<8xi64>
}

// -----

// CHECK: kernel two_rows: a TPC kernel reduces over one set of dimensions only
func.func @two_rows(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = hpu.cluster (%a0 = %x) : (tensor<8x8xf32>) -> (tensor<8x8xf32>) {
    %s = hpu.softmax %a0 {axis = 0 : i64} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %r = hpu.softmax %s {axis = 1 : i64} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    hpu.yield %r : tensor<8x8xf32>
  }
  return %0 : tensor<8x8xf32>
}
