// A free size keeps its name, a body becomes elementwise ops, a sum of products a matmul; mixed with our own dialect.
// RUN: hpu-compile %s --stop-after import -o %t.mlir && FileCheck %s < %t.mlir
// CHECK: func.func @main(%arg0: tensor<?x64xf32, #hpu.layout<{{.*}}"batch"{{.*}}>> {hpu.name = "x"}
// CHECK: %[[M:.*]] = hpu.matmul
// CHECK-NEXT: %[[T:.*]] = hpu.tanh %[[M]]
// CHECK-NEXT: %[[R:.*]] = hpu.relu %[[T]]
// CHECK-NEXT: return %[[R]]
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%a: tensor<?x64xf32> {hpu.name = "x", hpu.dims = ["batch", ""]}, %w: tensor<64x32xf32>) -> tensor<?x32xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?x64xf32>
  %e = tensor.empty(%n) : tensor<?x32xf32>
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x32xf32>) -> tensor<?x32xf32>
  %m = linalg.matmul ins(%a, %w : tensor<?x64xf32>, tensor<64x32xf32>) outs(%f : tensor<?x32xf32>) -> tensor<?x32xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<?x32xf32>) outs(%e : tensor<?x32xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = math.tanh %x : f32
    linalg.yield %y : f32
  } -> tensor<?x32xf32>
  %q = hpu.relu %r : (tensor<?x32xf32>) -> tensor<?x32xf32>
  return %q : tensor<?x32xf32>
}
