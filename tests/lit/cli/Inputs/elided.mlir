func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %w = hpu.constant dense_resource<weights> : tensor<4x4xf32> : tensor<4x4xf32>
  %y = hpu.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
