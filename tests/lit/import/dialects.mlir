// The second door takes the hpu dialect only, and says so.
// RUN: not hpu-compile %s --stop-after import -o %t.mlir 2>&1 | FileCheck %s
// CHECK: uses the 'tosa' dialect; OpenHPU reads MLIR in the hpu dialect only: export the model to ONNX instead
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = tosa.abs %x : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}
