// The only public function is the model, and what it calls becomes part of it; text may begin with an alias.
// RUN: hpu-compile %s --stop-after import -o %t.mlir && FileCheck %s < %t.mlir
// RUN: mlir-opt %s --emit-bytecode -o %t.mlirbc
// RUN: hpu-compile %t.mlirbc --stop-after import -o %t.again.mlir && FileCheck %s < %t.again.mlir
// CHECK: func.func @main(%arg0: tensor<3x4xf32>
// CHECK-NEXT: hpu.tanh %arg0
// CHECK-NEXT: hpu.exp
// CHECK-NEXT: return
!t = tensor<3x4xf32>
func.func private @f(%x: !t) -> !t {
  %y = tosa.tanh %x : (!t) -> !t
  return %y : !t
}
func.func @net(%x: !t) -> !t {
  %y = call @f(%x) : (!t) -> !t
  %z = math.exp %y : !t
  return %z : !t
}
