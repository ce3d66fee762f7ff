// SPDX-License-Identifier: Apache-2.0
// x / sqrt(mean(x^2) + epsilon) * scale, over the last dimension: an op that the model of check.py has, and ONNX has not.
#x = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#scale = affine_map<(i, j) -> (j)>
module attributes {hpu.custom_ops = 1 : i64} {
  func.func @rms_norm(%x: tensor<?x?xf32>, %scale: tensor<?xf32>,
                      %epsilon: f32 {hpu.attribute = "epsilon", hpu.default = 1.0e-6 : f32})
      -> tensor<?x?xf32> attributes {hpu.op = "example::RmsNorm"} {
    %c0 = arith.constant 0 : index
    %rows = tensor.dim %x, %c0 : tensor<?x?xf32>
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %empty = tensor.empty(%rows) : tensor<?xf32>
    %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<?xf32>) -> tensor<?xf32>
    %squares = linalg.generic {indexing_maps = [#x, #row], iterator_types = ["parallel", "reduction"]}
        ins(%x : tensor<?x?xf32>) outs(%zeros : tensor<?xf32>) {
    ^bb0(%a: f32, %sum: f32):
      %square = arith.mulf %a, %a : f32
      %next = arith.addf %sum, %square : f32
      linalg.yield %next : f32
    } -> tensor<?xf32>
    %counts = linalg.generic {indexing_maps = [#x, #row], iterator_types = ["parallel", "reduction"]}
        ins(%x : tensor<?x?xf32>) outs(%zeros : tensor<?xf32>) {
    ^bb0(%a: f32, %sum: f32):
      %next = arith.addf %sum, %one : f32
      linalg.yield %next : f32
    } -> tensor<?xf32>
    %y = linalg.generic {indexing_maps = [#x, #row, #row, #scale, #x], iterator_types = ["parallel", "parallel"]}
        ins(%x, %squares, %counts, %scale : tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
        outs(%x : tensor<?x?xf32>) {
    ^bb0(%a: f32, %sum: f32, %count: f32, %s: f32, %out: f32):
      %mean = arith.divf %sum, %count : f32
      %shifted = arith.addf %mean, %epsilon : f32
      %factor = math.rsqrt %shifted : f32
      %normal = arith.mulf %a, %factor : f32
      %scaled = arith.mulf %normal, %s : f32
      linalg.yield %scaled : f32
    } -> tensor<?x?xf32>
    return %y : tensor<?x?xf32>
  }
}
