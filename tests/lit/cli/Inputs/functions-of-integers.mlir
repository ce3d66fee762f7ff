func.func @main(%x: tensor<4x4xi64>, %i: tensor<4xi32>, %j: tensor<4xi1>) -> (tensor<4x4xi64>, tensor<4xi32>, tensor<4xi1>) {
  %0 = hpu.erf_inv %x : (tensor<4x4xi64>) -> tensor<4x4xi64> loc(fused<"ErfInv">["sum"])
  %1 = hpu.exp %i : (tensor<4xi32>) -> tensor<4xi32> loc(fused<"Exp">["power"])
  %2 = hpu.exp %j : (tensor<4xi1>) -> tensor<4xi1> loc(fused<"Exp">["product"])
  return %0, %1, %2 : tensor<4x4xi64>, tensor<4xi32>, tensor<4xi1>
}
