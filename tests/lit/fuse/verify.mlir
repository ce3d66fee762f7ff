// RUN: hpu-opt %s --hpu-verify-fused --split-input-file --verify-diagnostics

func.func @outside(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{'hpu.relu' op is outside of a unit after fuse}}
  %0 = hpu.relu %x : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @inside(%x: tensor<8xf32>) -> tensor<4x2xf32> {
  %0 = hpu.cluster (%a = %x) : (tensor<8xf32>) -> tensor<8xf32> {
    %1 = hpu.relu %a : (tensor<8xf32>) -> tensor<8xf32>
    hpu.yield %1 : tensor<8xf32>
  }
  %2 = hpu.reshape %0 {shape = array<i64: 4, 2>} : (tensor<8xf32>) -> tensor<4x2xf32>
  return %2 : tensor<4x2xf32>
}

// -----

// A slice that runs backwards is no view, so it needs a kernel.
func.func @backwards(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{'hpu.slice' op is outside of a unit after fuse}}
  %0 = hpu.slice %x {starts = array<i64: 7>, sizes = array<i64: 8>, steps = array<i64: -1>} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
