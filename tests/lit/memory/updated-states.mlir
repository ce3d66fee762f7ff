// RUN: hpu-opt %s --hpu-verify-memory --split-input-file --verify-diagnostics

// The sum reads the state before the scatter writes over it; the sections are 0 to 2, the inputs, 3 and 4, the outputs.
func.func @before(%x: tensor<8x8xf32> {hpu.state = 0 : i64, hpu.capacity = array<i64: 8, 8>}, %i: tensor<2x1xi64>, %u: tensor<2x8xf32>)
    -> (tensor<8x8xf32> {hpu.state = 0 : i64, hpu.capacity = array<i64: 8, 8>}, tensor<8xf32>) {
  %1 = hpu.cluster (%a = %x) {hpu.buffers = array<i64: 4, 0>} : (tensor<8x8xf32>) -> tensor<8xf32> {
    %3 = hpu.reduce_sum %a {axes = array<i64: 1>, keepdims = false} : (tensor<8x8xf32>) -> tensor<8xf32>
    hpu.yield %3 : tensor<8xf32>
  }
  %0 = hpu.cluster (%a = %x, %b = %i, %c = %u) {hpu.buffers = array<i64: 3, 0>, hpu.strides = [array<i64: 8, 1>], hpu.updates = 0 : i64} : (tensor<8x8xf32>, tensor<2x1xi64>, tensor<2x8xf32>) -> tensor<8x8xf32> {
    %3 = hpu.scatter_nd %a, %b, %c : (tensor<8x8xf32>, tensor<2x1xi64>, tensor<2x8xf32>) -> tensor<8x8xf32>
    hpu.yield %3 : tensor<8x8xf32>
  }
  return %0, %1 : tensor<8x8xf32>, tensor<8xf32>
}

// -----

func.func @behind(%x: tensor<8x8xf32> {hpu.state = 0 : i64, hpu.capacity = array<i64: 8, 8>}, %i: tensor<2x1xi64>, %u: tensor<2x8xf32>)
    -> (tensor<8x8xf32> {hpu.state = 0 : i64, hpu.capacity = array<i64: 8, 8>}, tensor<8xf32>) {
  // expected-error @+1 {{'hpu.cluster' op buffer overwrites a state that is still read}}
  %0 = hpu.cluster (%a = %x, %b = %i, %c = %u) {hpu.buffers = array<i64: 3, 0>, hpu.strides = [array<i64: 8, 1>], hpu.updates = 0 : i64} : (tensor<8x8xf32>, tensor<2x1xi64>, tensor<2x8xf32>) -> tensor<8x8xf32> {
    %3 = hpu.scatter_nd %a, %b, %c : (tensor<8x8xf32>, tensor<2x1xi64>, tensor<2x8xf32>) -> tensor<8x8xf32>
    hpu.yield %3 : tensor<8x8xf32>
  }
  %1 = hpu.cluster (%a = %x) {hpu.buffers = array<i64: 4, 0>} : (tensor<8x8xf32>) -> tensor<8xf32> {
    %3 = hpu.reduce_sum %a {axes = array<i64: 1>, keepdims = false} : (tensor<8x8xf32>) -> tensor<8xf32>
    hpu.yield %3 : tensor<8xf32>
  }
  return %0, %1 : tensor<8x8xf32>, tensor<8xf32>
}

// -----

// Its own updates are rows of what it writes over.
func.func @itself(%x: tensor<8x8xf32> {hpu.state = 0 : i64, hpu.capacity = array<i64: 8, 8>}, %i: tensor<2x1xi64>)
    -> (tensor<8x8xf32> {hpu.state = 0 : i64, hpu.capacity = array<i64: 8, 8>}) {
  %u = hpu.slice %x {starts = array<i64: 3, 0>, sizes = array<i64: 2, 8>, steps = array<i64: 1, 1>} : (tensor<8x8xf32>) -> tensor<2x8xf32>
  // expected-error @+1 {{'hpu.cluster' op buffer overwrites a state that is still read}}
  %0 = hpu.cluster (%a = %x, %b = %i, %c = %u) {hpu.buffers = array<i64: 2, 0>, hpu.strides = [array<i64: 8, 1>], hpu.updates = 0 : i64} : (tensor<8x8xf32>, tensor<2x1xi64>, tensor<2x8xf32>) -> tensor<8x8xf32> {
    %3 = hpu.scatter_nd %a, %b, %c : (tensor<8x8xf32>, tensor<2x1xi64>, tensor<2x8xf32>) -> tensor<8x8xf32>
    hpu.yield %3 : tensor<8x8xf32>
  }
  return %0 : tensor<8x8xf32>
}

// -----

// What the state was between two updates is read behind the second one.
func.func @between(%x: tensor<8x8xf32> {hpu.state = 0 : i64, hpu.capacity = array<i64: 8, 8>}, %i: tensor<2x1xi64>, %u: tensor<2x8xf32>)
    -> (tensor<8x8xf32> {hpu.state = 0 : i64, hpu.capacity = array<i64: 8, 8>}, tensor<8xf32>) {
  %0 = hpu.cluster (%a = %x, %b = %i, %c = %u) {hpu.buffers = array<i64: 3, 0>, hpu.strides = [array<i64: 8, 1>], hpu.updates = 0 : i64} : (tensor<8x8xf32>, tensor<2x1xi64>, tensor<2x8xf32>) -> tensor<8x8xf32> {
    %4 = hpu.scatter_nd %a, %b, %c : (tensor<8x8xf32>, tensor<2x1xi64>, tensor<2x8xf32>) -> tensor<8x8xf32>
    hpu.yield %4 : tensor<8x8xf32>
  }
  // expected-error @+1 {{'hpu.cluster' op buffer overlaps a buffer that is alive with it}}
  %1 = hpu.cluster (%a = %0, %b = %i, %c = %u) {hpu.buffers = array<i64: 3, 0>, hpu.strides = [array<i64: 8, 1>], hpu.updates = 0 : i64} : (tensor<8x8xf32>, tensor<2x1xi64>, tensor<2x8xf32>) -> tensor<8x8xf32> {
    %4 = hpu.scatter_nd %a, %b, %c : (tensor<8x8xf32>, tensor<2x1xi64>, tensor<2x8xf32>) -> tensor<8x8xf32>
    hpu.yield %4 : tensor<8x8xf32>
  }
  %2 = hpu.cluster (%a = %0) {hpu.buffers = array<i64: 4, 0>} : (tensor<8x8xf32>) -> tensor<8xf32> {
    %4 = hpu.reduce_sum %a {axes = array<i64: 1>, keepdims = false} : (tensor<8x8xf32>) -> tensor<8xf32>
    hpu.yield %4 : tensor<8xf32>
  }
  return %1, %2 : tensor<8x8xf32>, tensor<8xf32>
}
