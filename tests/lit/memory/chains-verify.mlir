// RUN: hpu-opt %s --hpu-verify-memory --split-input-file --verify-diagnostics

// The second unit's slice 0 would overwrite what the first unit's slice 1 reads.
func.func @placeOfTheFirstsOperand(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %r = hpu.cluster (%a = %x) {hpu.buffers = array<i64: 4, 0>} : (tensor<64x64xf32>) -> tensor<64x64xf32> {
    %2 = hpu.relu %a : (tensor<64x64xf32>) -> tensor<64x64xf32>
    hpu.yield %2 : tensor<64x64xf32>
  }
  %0 = hpu.bundle (%a = %r, %b = %w) {hpu.buffers = array<i64: 5, 0>, hpu.chain = array<i64: 0, 2>, hpu.chain_ring = array<i64: 0, 2, 0, 4096>, hpu.strides = [array<i64: 64, 1>], tile = #hpu.tile<[16, 64]>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
    %2 = hpu.matmul %a, %b : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    hpu.yield %2 : tensor<64x64xf32>
  }
  // expected-error @+1 {{'hpu.bundle' op buffer overlaps a buffer that is alive with it}}
  %1 = hpu.bundle (%a = %0, %b = %w) {hpu.buffers = array<i64: 4, 0>, tile = #hpu.tile<[16, 64]>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
    %2 = hpu.matmul %a, %b : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    hpu.yield %2 : tensor<64x64xf32>
  }
  %y = hpu.cluster (%a = %1) {hpu.buffers = array<i64: 2, 0>} : (tensor<64x64xf32>) -> tensor<64x64xf32> {
    %2 = hpu.tanh %a : (tensor<64x64xf32>) -> tensor<64x64xf32>
    hpu.yield %2 : tensor<64x64xf32>
  }
  return %y : tensor<64x64xf32>
}

// -----

func.func @noTiles(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  // expected-error @+1 {{'hpu.bundle' op buffer is chained, but has no SRAM tiles for it}}
  %0 = hpu.bundle (%a = %x, %b = %w) {hpu.buffers = array<i64: 5, 0>, hpu.chain = array<i64: 0, 2>, tile = #hpu.tile<[16, 64]>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
    %2 = hpu.matmul %a, %b : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    hpu.yield %2 : tensor<64x64xf32>
  }
  %1 = hpu.bundle (%a = %0, %b = %w) {hpu.buffers = array<i64: 2, 0>, tile = #hpu.tile<[16, 64]>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
    %2 = hpu.matmul %a, %b : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    hpu.yield %2 : tensor<64x64xf32>
  }
  return %1 : tensor<64x64xf32>
}

// -----

func.func @tilesOfTheReader(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  // expected-error @+1 {{'hpu.bundle' op buffer shares SRAM tiles with its reader}}
  %0 = hpu.bundle (%a = %x, %b = %w) {hpu.buffers = array<i64: 5, 0>, hpu.chain = array<i64: 0, 1>, hpu.chain_ring = array<i64: 0, 1, 0, 16384>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
    %2 = hpu.matmul %a, %b : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    hpu.yield %2 : tensor<64x64xf32>
  }
  %1 = hpu.bundle (%a = %0, %b = %w) {hpu.buffers = array<i64: 2, 0>, hpu.ring = array<i64: 8192, 2, 0, 4096>, tile = #hpu.tile<[16, 64], slots = 2>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
    %2 = hpu.matmul %a, %b : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %3 = hpu.relu %2 : (tensor<64x64xf32>) -> tensor<64x64xf32>
    hpu.yield %3 : tensor<64x64xf32>
  }
  return %1 : tensor<64x64xf32>
}

// -----

func.func @tooSmall(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  // expected-error @+1 {{'hpu.bundle' op buffer has SRAM tiles that are too small}}
  %0 = hpu.bundle (%a = %x, %b = %w) {hpu.buffers = array<i64: 5, 0>, hpu.chain = array<i64: 0, 2>, hpu.chain_ring = array<i64: 0, 2, 0, 2048>, hpu.strides = [array<i64: 64, 1>], tile = #hpu.tile<[16, 64]>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
    %2 = hpu.matmul %a, %b : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    hpu.yield %2 : tensor<64x64xf32>
  }
  %1 = hpu.bundle (%a = %0, %b = %w) {hpu.buffers = array<i64: 2, 0>, tile = #hpu.tile<[16, 64]>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
    %2 = hpu.matmul %a, %b : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    hpu.yield %2 : tensor<64x64xf32>
  }
  return %1 : tensor<64x64xf32>
}
