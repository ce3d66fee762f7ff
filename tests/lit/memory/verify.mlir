// RUN: hpu-opt %s --hpu-verify-memory --split-input-file --verify-diagnostics

func.func @notAligned(%x: tensor<64xf32>) -> tensor<64xf32> {
  // expected-error @+1 {{'hpu.cluster' op buffer is not aligned}}
  %0 = hpu.cluster (%a = %x) {hpu.buffers = array<i64: 3, 128>} : (tensor<64xf32>) -> tensor<64xf32> {
    %3 = hpu.relu %a : (tensor<64xf32>) -> tensor<64xf32>
    hpu.yield %3 : tensor<64xf32>
  }
  %1 = hpu.cluster (%a = %0) {hpu.buffers = array<i64: 1, 0>} : (tensor<64xf32>) -> tensor<64xf32> {
    %3 = hpu.tanh %a : (tensor<64xf32>) -> tensor<64xf32>
    hpu.yield %3 : tensor<64xf32>
  }
  return %1 : tensor<64xf32>
}

// -----

// In place is right when the operand dies at the unit that reads it at the very point that it writes.
func.func @inPlace(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = hpu.cluster (%a = %x) {hpu.buffers = array<i64: 3, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32> {
    %3 = hpu.relu %a : (tensor<8x8xf32>) -> tensor<8x8xf32>
    hpu.yield %3 : tensor<8x8xf32>
  }
  %1 = hpu.cluster (%a = %0) {hpu.buffers = array<i64: 3, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32> {
    %3 = hpu.tanh %a : (tensor<8x8xf32>) -> tensor<8x8xf32>
    hpu.yield %3 : tensor<8x8xf32>
  }
  %2 = hpu.cluster (%a = %1) {hpu.buffers = array<i64: 1, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32> {
    %3 = hpu.tanh %a : (tensor<8x8xf32>) -> tensor<8x8xf32>
    hpu.yield %3 : tensor<8x8xf32>
  }
  return %2 : tensor<8x8xf32>
}

// -----

func.func @inPlaceThroughATranspose(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = hpu.cluster (%a = %x) {hpu.buffers = array<i64: 3, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32> {
    %3 = hpu.relu %a : (tensor<8x8xf32>) -> tensor<8x8xf32>
    hpu.yield %3 : tensor<8x8xf32>
  }
  %t = hpu.transpose %0 {perm = array<i64: 1, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // expected-error @+1 {{'hpu.cluster' op buffer overlaps a buffer that is alive with it}}
  %1 = hpu.cluster (%a = %t) {hpu.buffers = array<i64: 3, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32> {
    %3 = hpu.tanh %a : (tensor<8x8xf32>) -> tensor<8x8xf32>
    hpu.yield %3 : tensor<8x8xf32>
  }
  %2 = hpu.cluster (%a = %1) {hpu.buffers = array<i64: 1, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32> {
    %3 = hpu.tanh %a : (tensor<8x8xf32>) -> tensor<8x8xf32>
    hpu.yield %3 : tensor<8x8xf32>
  }
  return %2 : tensor<8x8xf32>
}

// -----

// The MME reads rows of its operand that the epilogue has written over.
func.func @inPlaceOfAnMmeOperand(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = hpu.cluster (%a = %x) {hpu.buffers = array<i64: 3, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32> {
    %3 = hpu.relu %a : (tensor<8x8xf32>) -> tensor<8x8xf32>
    hpu.yield %3 : tensor<8x8xf32>
  }
  // expected-error @+1 {{'hpu.bundle' op buffer overlaps a buffer that is alive with it}}
  %1 = hpu.bundle (%a = %0, %b = %x) {hpu.buffers = array<i64: 3, 0>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> {
    %3 = hpu.matmul %a, %b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %4 = hpu.add %3, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    hpu.yield %4 : tensor<8x8xf32>
  }
  %2 = hpu.cluster (%a = %1) {hpu.buffers = array<i64: 1, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32> {
    %3 = hpu.tanh %a : (tensor<8x8xf32>) -> tensor<8x8xf32>
    hpu.yield %3 : tensor<8x8xf32>
  }
  return %2 : tensor<8x8xf32>
}

// -----

// What a concatenation finds in place must stay until the concatenation's last reader is done.
func.func @partOverwritten(%x: tensor<2x64xf32>) -> tensor<4x64xf32> {
  %0 = hpu.cluster (%a = %x) {hpu.buffers = array<i64: 3, 0>} : (tensor<2x64xf32>) -> tensor<2x64xf32> {
    %3 = hpu.relu %a : (tensor<2x64xf32>) -> tensor<2x64xf32>
    hpu.yield %3 : tensor<2x64xf32>
  }
  %1 = hpu.cluster (%a = %x) {hpu.buffers = array<i64: 3, 512>} : (tensor<2x64xf32>) -> tensor<2x64xf32> {
    %3 = hpu.tanh %a : (tensor<2x64xf32>) -> tensor<2x64xf32>
    hpu.yield %3 : tensor<2x64xf32>
  }
  %c = hpu.concat %0, %1 {axis = 0 : i64, hpu.buffers = array<i64: 3, 0>} : (tensor<2x64xf32>, tensor<2x64xf32>) -> tensor<4x64xf32>
  // expected-error @+1 {{'hpu.cluster' op buffer overlaps a buffer that is alive with it}}
  %2 = hpu.cluster (%a = %x) {hpu.buffers = array<i64: 3, 512>} : (tensor<2x64xf32>) -> tensor<2x64xf32> {
    %3 = hpu.tanh %a : (tensor<2x64xf32>) -> tensor<2x64xf32>
    hpu.yield %3 : tensor<2x64xf32>
  }
  %d = hpu.concat %2, %2 {axis = 0 : i64, hpu.buffers = array<i64: 3, 4096>} : (tensor<2x64xf32>, tensor<2x64xf32>) -> tensor<4x64xf32>
  %4 = hpu.cluster (%a = %c, %b = %d) {hpu.buffers = array<i64: 1, 0>} : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32> {
    %3 = hpu.add %a, %b : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
    hpu.yield %3 : tensor<4x64xf32>
  }
  return %4 : tensor<4x64xf32>
}

// -----

func.func @beyondTheWorkspace(%x: tensor<64xf32>) -> tensor<64xf32> attributes {hpu.workspace = 256 : i64} {
  // expected-error @+1 {{'hpu.cluster' op buffer is beyond the workspace}}
  %0 = hpu.cluster (%a = %x) {hpu.buffers = array<i64: 3, 256>} : (tensor<64xf32>) -> tensor<64xf32> {
    %3 = hpu.relu %a : (tensor<64xf32>) -> tensor<64xf32>
    hpu.yield %3 : tensor<64xf32>
  }
  %1 = hpu.cluster (%a = %0) {hpu.buffers = array<i64: 1, 0>} : (tensor<64xf32>) -> tensor<64xf32> {
    %3 = hpu.tanh %a : (tensor<64xf32>) -> tensor<64xf32>
    hpu.yield %3 : tensor<64xf32>
  }
  return %1 : tensor<64xf32>
}

// -----

func.func @overlap(%x: tensor<128xf32>) -> tensor<128xf32> {
  %0 = hpu.cluster (%a = %x) {hpu.buffers = array<i64: 3, 0>} : (tensor<128xf32>) -> tensor<128xf32> {
    %3 = hpu.relu %a : (tensor<128xf32>) -> tensor<128xf32>
    hpu.yield %3 : tensor<128xf32>
  }
  // expected-error @+1 {{'hpu.cluster' op buffer overlaps a buffer that is alive with it}}
  %1 = hpu.cluster (%a = %0) {hpu.buffers = array<i64: 3, 256>} : (tensor<128xf32>) -> tensor<128xf32> {
    %3 = hpu.tanh %a : (tensor<128xf32>) -> tensor<128xf32>
    hpu.yield %3 : tensor<128xf32>
  }
  %2 = hpu.cluster (%a = %1) {hpu.buffers = array<i64: 1, 0>} : (tensor<128xf32>) -> tensor<128xf32> {
    %3 = hpu.tanh %a : (tensor<128xf32>) -> tensor<128xf32>
    hpu.yield %3 : tensor<128xf32>
  }
  return %2 : tensor<128xf32>
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
