// RUN: hpu-opt %s --hpu-verify-tile --split-input-file --verify-diagnostics

// Half as many rows in a slice of the reader: its slices read two of the producer's.
func.func @notCutAlike(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error @+1 {{is chained, but the next unit, 'bundle', is not its only reader or not cut as it is}}
  %0 = hpu.bundle (%a = %x, %b = %w) {hpu.chain = array<i64: 0, 2>, tile = #hpu.tile<[2, 8]>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> {
    %2 = hpu.matmul %a, %b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    hpu.yield %2 : tensor<8x8xf32>
  }
  %1 = hpu.bundle (%a = %0, %b = %w) {tile = #hpu.tile<[4, 8]>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> {
    %2 = hpu.matmul %a, %b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    hpu.yield %2 : tensor<8x8xf32>
  }
  return %1 : tensor<8x8xf32>
}

// -----

// Rows of the transpose are columns.
func.func @throughATranspose(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error @+1 {{is not its only reader or not cut as it is}}
  %0 = hpu.bundle (%a = %x, %b = %w) {hpu.chain = array<i64: 0, 2>, tile = #hpu.tile<[2, 8]>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> {
    %2 = hpu.matmul %a, %b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    hpu.yield %2 : tensor<8x8xf32>
  }
  %t = hpu.transpose %0 {perm = array<i64: 1, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = hpu.bundle (%a = %t, %b = %w) {tile = #hpu.tile<[2, 8]>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> {
    %2 = hpu.matmul %a, %b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    hpu.yield %2 : tensor<8x8xf32>
  }
  return %1 : tensor<8x8xf32>
}

// -----

func.func @noUnitFollows(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error @+1 {{is chained, but no unit follows}}
  %0 = hpu.bundle (%a = %x, %b = %w) {hpu.chain = array<i64: 0, 1>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> {
    %2 = hpu.matmul %a, %b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    hpu.yield %2 : tensor<8x8xf32>
  }
  return %0 : tensor<8x8xf32>
}
