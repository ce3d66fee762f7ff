// RUN: hpu-opt %s --split-input-file --verify-diagnostics

func.func @freeSizes(%n: tensor<i64>, %x: tensor<?xf32>) -> tensor<?xf32> {
  // expected-error @+1 {{has operands or results of free sizes}}
  %0 = hpu.loop %n, %x {operandSegmentSizes = array<i32: 1, 0, 1, 0, 0>, trips = 3 : i64, scanned_backwards = array<i1>, collected_backwards = array<i1>} : (tensor<i64>, tensor<?xf32>) -> tensor<?xf32> {
  ^bb0(%v: tensor<?xf32>):
    hpu.yield %v : tensor<?xf32>
  }
  return %0 : tensor<?xf32>
}

// -----

func.func @count(%n: tensor<2xi64>, %x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has a count of type 'tensor<2xi64>', which needs one element of i64}}
  %0 = hpu.loop %n, %x {operandSegmentSizes = array<i32: 1, 0, 1, 0, 0>, trips = 3 : i64, scanned_backwards = array<i1>, collected_backwards = array<i1>} : (tensor<2xi64>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>):
    hpu.yield %v : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @slices(%x: tensor<4xf32>, %xs: tensor<2x4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{scans or collects 'tensor<2x4xf32>', which is no 3 slices}}
  %0 = hpu.loop %x, %xs {operandSegmentSizes = array<i32: 0, 0, 1, 1, 0>, trips = 3 : i64, scanned_backwards = array<i1: false>, collected_backwards = array<i1>} : (tensor<4xf32>, tensor<2x4xf32>) -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>, %s: tensor<4xf32>):
    hpu.yield %v : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @arguments(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has a body that takes ('tensor<3xf32>') and is given ('tensor<4xf32>')}}
  %0 = hpu.loop %x {operandSegmentSizes = array<i32: 0, 0, 1, 0, 0>, trips = 3 : i64, scanned_backwards = array<i1>, collected_backwards = array<i1>} : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%v: tensor<3xf32>):
    hpu.yield %v : tensor<3xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @noCondition(%go: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has a body that yields ('tensor<4xf32>') in place of ('tensor<i1>', 'tensor<4xf32>')}}
  %0 = hpu.loop %go, %x {operandSegmentSizes = array<i32: 0, 1, 1, 0, 0>, trips = 3 : i64, scanned_backwards = array<i1>, collected_backwards = array<i1>} : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>):
    hpu.yield %v : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @branches(%go: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has a body that yields ('tensor<f32>') in place of ('tensor<4xf32>')}}
  %0 = hpu.if %go, %x : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    hpu.yield %a : tensor<4xf32>
  }, {
  ^bb0(%a: tensor<4xf32>):
    %1 = hpu.reduce_sum %a {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
    hpu.yield %1 : tensor<f32>
  }
  return %0 : tensor<4xf32>
}
