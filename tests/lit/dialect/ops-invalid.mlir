// Result types follow from operands and attributes; what does not fit is refused with the reason.
// RUN: hpu-opt %s --split-input-file --verify-diagnostics

func.func @broadcast(%a: tensor<2x3xf32>, %b: tensor<4xf32>) {
  // expected-error @+2 {{shapes do not broadcast}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = hpu.add %a, %b : (tensor<2x3xf32>, tensor<4xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @elementTypes(%a: tensor<2xf32>, %b: tensor<2xbf16>) {
  // expected-error @+2 {{element types differ}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = hpu.add %a, %b : (tensor<2xf32>, tensor<2xbf16>) -> tensor<2xf32>
  return
}

// -----

func.func @resultType(%a: tensor<2xf32>) {
  // expected-error @+2 {{incompatible with return type(s)}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = hpu.relu %a : (tensor<2xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @condition(%a: tensor<2xf32>) {
  // expected-error @+2 {{the condition must have element type i1}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = hpu.where %a, %a, %a : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @bitcast(%a: tensor<2xf32>) {
  // expected-error @+2 {{a bitcast keeps the width: 'f32' has 32 bits, 'bf16' has 16}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = hpu.bitcast %a {to = bf16} : (tensor<2xf32>) -> tensor<2xbf16>
  return
}

// -----

func.func @bitcastOfBool(%a: tensor<2xi1>) {
  // expected-error @+2 {{a bitcast keeps the width: 'i1' has 1 bits, 'i8' has 8}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = hpu.bitcast %a {to = i8} : (tensor<2xi1>) -> tensor<2xi8>
  return
}

// -----

func.func @reshape(%a: tensor<2x3xf32>) {
  // expected-error @+2 {{cannot reshape 2x3xf32 to 4x2xf32 (6 against 8 elements)}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = hpu.reshape %a {shape = array<i64: 4, 2>} : (tensor<2x3xf32>) -> tensor<4x2xf32>
  return
}

// -----

func.func @permutation(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{perm must be a permutation}}
  %0 = hpu.transpose %a {perm = array<i64: 0, 0>} : (tensor<2x3xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @slice(%a: tensor<4xf32>) {
  // expected-error @+1 {{leaves dim 0 of 4xf32}}
  %0 = hpu.slice %a {starts = array<i64: 2>, sizes = array<i64: 2>, steps = array<i64: 2>} : (tensor<4xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @concat(%a: tensor<2x3xf32>, %b: tensor<2x4xf32>) {
  // expected-error @+2 {{cannot join 2x3xf32 and 2x4xf32 along axis 0}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = hpu.concat %a, %b {axis = 0 : i64} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @relayout(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{must keep shape and element type}}
  %0 = hpu.relayout %a : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}

// -----

// expected-error @+1 {{layout order must name every dimension once}}
func.func @order(%a: tensor<2x3xf32, #hpu.layout<order = [0, 0]>>) {
  return
}

// -----

// A result may lie in another order, or have a known size where inference only knows a name.
func.func @compatible(%a: tensor<2x3xf32>) {
  %0 = hpu.relu %a : (tensor<2x3xf32>) -> tensor<2x3xf32, #hpu.layout<order = [1, 0]>>
  return
}

// -----

// A sum may store another float type than it reads.
func.func @sum(%a: tensor<2x3xbf16>) {
  %0 = hpu.reduce_sum %a {axes = array<i64: 1>, to = f32} : (tensor<2x3xbf16>) -> tensor<2x1xf32>
  return
}

// -----

func.func @sum_of_integers(%a: tensor<2x3xi32>) {
  // expected-error @+1 {{sums up floats when it has a type of its own, which is a float as well}}
  %0 = hpu.reduce_sum %a {axes = array<i64: 1>, to = f32} : (tensor<2x3xi32>) -> tensor<2x1xf32>
  return
}

// -----

func.func @padBeyondAllNumbers(%a: tensor<4x4xf32>) {
  // expected-error @+2 {{no tensor holds dimension 0 with its padding}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = hpu.pad %a {low = array<i64: 9223372036854775807, 0>, high = array<i64: 9223372036854775807, 0>, value = 1.0 : f64} : (tensor<4x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @padThatCuts(%a: tensor<4x4xf32>) {
  // expected-error @+2 {{low and high must not be negative}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = hpu.pad %a {low = array<i64: -1, 0>, high = array<i64: 1, 0>, value = 1.0 : f64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @strideBeyondAllInputs(%a: tensor<1x1x4x4xf32>, %b: tensor<1x1x2x2xf32>) {
  // expected-error @+2 {{strides and dilations must be 1 to 2147483648, and one is 4611686018427387904}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = hpu.conv2d %a, %b {strides = array<i64: 4611686018427387904, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, groups = 1 : i64} : (tensor<1x1x4x4xf32>, tensor<1x1x2x2xf32>) -> tensor<1x1x1x3xf32>
  return
}
