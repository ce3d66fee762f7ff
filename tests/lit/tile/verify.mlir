// RUN: hpu-opt %s --hpu-verify-tile --split-input-file --verify-diagnostics

func.func @noTile(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{'hpu.bundle' op has no tile of its rank}}
  %0 = hpu.bundle (%a = %x, %b = %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> {
    %1 = hpu.matmul %a, %b : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %2 = hpu.relu %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
    hpu.yield %2 : tensor<4x8xf32>
  }
  return %0 : tensor<4x8xf32>
}

// -----

func.func @twoDims(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{a tile of 32 bytes cannot be held in SRAM}}
  %0 = hpu.bundle (%a = %x, %b = %w) {tile = #hpu.tile<[2, 4], slots = 2>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> {
    %1 = hpu.matmul %a, %b : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %2 = hpu.relu %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
    hpu.yield %2 : tensor<4x8xf32>
  }
  return %0 : tensor<4x8xf32>
}

// -----

func.func @tooLarge(%x: tensor<4096x8xf32>, %w: tensor<8x4096xf32>) -> tensor<4096x4096xf32> {
  // expected-error @+1 {{a tile of 67108864 bytes cannot be held in SRAM}}
  %0 = hpu.bundle (%a = %x, %b = %w) {tile = #hpu.tile<[4096, 4096]>} : (tensor<4096x8xf32>, tensor<8x4096xf32>) -> tensor<4096x4096xf32> {
    %1 = hpu.matmul %a, %b : (tensor<4096x8xf32>, tensor<8x4096xf32>) -> tensor<4096x4096xf32>
    %2 = hpu.relu %1 : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
    hpu.yield %2 : tensor<4096x4096xf32>
  }
  return %0 : tensor<4096x4096xf32>
}

// -----

// A bundle of one op needs no tile.
func.func @mmeAlone(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %0 = hpu.bundle (%a = %x, %b = %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> {
    %1 = hpu.matmul %a, %b : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    hpu.yield %1 : tensor<4x8xf32>
  }
  return %0 : tensor<4x8xf32>
}

// -----

func.func @noPacking(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %0 = hpu.bundle (%a = %x, %b = %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> {
    // expected-error @+1 {{hpu.packing is not in 2..64}}
    %1 = hpu.matmul %a, %b {hpu.packing = 1 : i64} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    hpu.yield %1 : tensor<4x8xf32>
  }
  return %0 : tensor<4x8xf32>
}
