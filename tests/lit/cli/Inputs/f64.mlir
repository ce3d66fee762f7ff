func.func @main(%x: tensor<4x4xf64>, %i: tensor<4xi32>) -> (tensor<4x4xf64>, tensor<4xi32>) {
  %0 = hpu.add %x, %x : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64> loc(fused<"Add">["sum"])
  %1 = hpu.matmul %0, %x : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64> loc(fused<"MatMul">["product"])
  %2 = hpu.pow %i, %i : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32> loc(fused<"Pow">["power"])
  return %1, %2 : tensor<4x4xf64>, tensor<4xi32>
}
