// RUN: hpu-opt %s --split-input-file --verify-diagnostics --hpu-verify-normalized

func.func @identity(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'hpu.reshape' op changes nothing and should have been removed}}
  %0 = hpu.reshape %x {shape = array<i64: 4>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @stacked(%x: tensor<2x3x4xf32>) -> tensor<3x4x2xf32> {
  %0 = hpu.transpose %x {perm = array<i64: 2, 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  // expected-error @+1 {{should have been merged with the same op below it}}
  %1 = hpu.transpose %0 {perm = array<i64: 2, 0, 1>} : (tensor<4x2x3xf32>) -> tensor<3x4x2xf32>
  return %1 : tensor<3x4x2xf32>
}

// -----

func.func @batchNorm(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %s = hpu.constant dense<4.0> : tensor<2xf32> : tensor<2xf32>
  // expected-error @+1 {{has constant statistics and should have been folded}}
  %0 = hpu.batch_norm %x, %s, %s, %s, %s {epsilon = 1.0 : f64} : (tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  return %0 : tensor<1x2x2x2xf32>
}

// -----

func.func @unknown(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @unknown {{'hpu.relu' op has an unknown location}}
  %0 = hpu.relu %x : (tensor<4xf32>) -> tensor<4xf32> loc(unknown)
  return %0 : tensor<4xf32>
}
