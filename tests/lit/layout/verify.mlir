// RUN: hpu-opt %s --hpu-verify-layout --split-input-file --verify-diagnostics

func.func @noView(%x: tensor<4x8xf32>) -> tensor<32xf32> {
  %0 = hpu.transpose %x {perm = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %1 = hpu.reshape %0 {shape = array<i64: 32>} : (tensor<8x4xf32>) -> tensor<32xf32>
  // expected-error @+1 {{operand 32xf32 is not a strided view after layout}}
  %2 = hpu.cluster (%a = %1) : (tensor<32xf32>) -> tensor<32xf32> {
    %3 = hpu.relu %a : (tensor<32xf32>) -> tensor<32xf32>
    hpu.yield %3 : tensor<32xf32>
  }
  return %2 : tensor<32xf32>
}

// -----

func.func @stridedOutput(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %0 = hpu.relayout %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = hpu.transpose %0 {perm = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  // expected-error @+1 {{operand 8x4xf32 is not a strided view after layout}}
  return %1 : tensor<8x4xf32>
}

// -----

func.func @argument(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{output 0 is not a buffer of its own}}
  return %x : tensor<8xf32>
}

// -----

func.func @twice(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = hpu.relayout %x : (tensor<8xf32>) -> tensor<8xf32>
  // expected-error @+1 {{output 1 is not a buffer of its own}}
  return %0, %0 : tensor<8xf32>, tensor<8xf32>
}
