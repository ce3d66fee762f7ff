// RUN: hpu-opt %s --split-input-file --verify-diagnostics --hpu-verify-precision

func.func @mme(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  // expected-error @+1 {{'hpu.matmul' op reads f32 on the MME although the precision is bf16}}
  %0 = hpu.matmul %x, %x : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// -----

func.func @constant(%x: tensor<2xbf16>) -> tensor<2xbf16> {
  %c = hpu.constant dense<1.0> : tensor<2xf32> : tensor<2xf32>
  // expected-error @+1 {{casts a constant at run time}}
  %0 = hpu.cast %c {to = bf16} : (tensor<2xf32>) -> tensor<2xbf16>
  %1 = hpu.add %x, %0 : (tensor<2xbf16>, tensor<2xbf16>) -> tensor<2xbf16>
  return %1 : tensor<2xbf16>
}

// -----

// A model may round.
func.func @rounds(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = hpu.cast %x {to = bf16} : (tensor<2xf32>) -> tensor<2xbf16>
  %1 = hpu.cast %0 {to = f32} : (tensor<2xbf16>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
