// RUN: hpu-opt %s --hpu-verify-memory --split-input-file --verify-diagnostics

func.func @overlap(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = hpu.cluster (%a = %x) {hpu.buffers = array<i64: 3, 0>} : (tensor<64xf32>) -> tensor<64xf32> {
    %3 = hpu.relu %a : (tensor<64xf32>) -> tensor<64xf32>
    hpu.yield %3 : tensor<64xf32>
  }
  // expected-error @+1 {{'hpu.cluster' op buffer overlaps a buffer that is alive with it}}
  %1 = hpu.cluster (%a = %0) {hpu.buffers = array<i64: 3, 128>} : (tensor<64xf32>) -> tensor<64xf32> {
    %3 = hpu.tanh %a : (tensor<64xf32>) -> tensor<64xf32>
    hpu.yield %3 : tensor<64xf32>
  }
  %2 = hpu.cluster (%a = %1) {hpu.buffers = array<i64: 1, 0>} : (tensor<64xf32>) -> tensor<64xf32> {
    %3 = hpu.tanh %a : (tensor<64xf32>) -> tensor<64xf32>
    hpu.yield %3 : tensor<64xf32>
  }
  return %2 : tensor<64xf32>
}

// -----

func.func @noAddress(%x: tensor<64xf32>) -> tensor<64xf32> {
  // expected-error @+1 {{'hpu.cluster' op buffer has no address}}
  %0 = hpu.cluster (%a = %x) : (tensor<64xf32>) -> tensor<64xf32> {
    %3 = hpu.relu %a : (tensor<64xf32>) -> tensor<64xf32>
    hpu.yield %3 : tensor<64xf32>
  }
  return %0 : tensor<64xf32>
}

// -----

func.func @beyondSram(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{has SRAM tiles beyond the capacity}}
  %0 = hpu.bundle (%a = %x, %b = %w) {hpu.buffers = array<i64: 2, 0>, hpu.ring = array<i64: 50000000, 2, 0, 1048576>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> {
    %1 = hpu.matmul %a, %b : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %2 = hpu.relu %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
    hpu.yield %2 : tensor<4x8xf32>
  }
  return %0 : tensor<4x8xf32>
}

// -----

// The same bytes at different times are no overlap.
func.func @reused(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = hpu.cluster (%a = %x) {hpu.buffers = array<i64: 3, 0>} : (tensor<64xf32>) -> tensor<64xf32> {
    %3 = hpu.relu %a : (tensor<64xf32>) -> tensor<64xf32>
    hpu.yield %3 : tensor<64xf32>
  }
  %1 = hpu.cluster (%a = %0) {hpu.buffers = array<i64: 3, 256>} : (tensor<64xf32>) -> tensor<64xf32> {
    %3 = hpu.tanh %a : (tensor<64xf32>) -> tensor<64xf32>
    hpu.yield %3 : tensor<64xf32>
  }
  %2 = hpu.cluster (%a = %1) {hpu.buffers = array<i64: 3, 0>} : (tensor<64xf32>) -> tensor<64xf32> {
    %3 = hpu.exp %a : (tensor<64xf32>) -> tensor<64xf32>
    hpu.yield %3 : tensor<64xf32>
  }
  %4 = hpu.cluster (%a = %2) {hpu.buffers = array<i64: 1, 0>} : (tensor<64xf32>) -> tensor<64xf32> {
    %3 = hpu.exp %a : (tensor<64xf32>) -> tensor<64xf32>
    hpu.yield %3 : tensor<64xf32>
  }
  return %4 : tensor<64xf32>
}
