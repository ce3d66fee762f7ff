// Ops that are not supported are told all at once, by name and place.
// RUN: not hpu-compile %s --stop-after import -o %t.mlir 2>&1 | FileCheck %s
// CHECK: 3 problems:
// CHECK-NEXT: tosa.cond_if at {{.*}}dialects.mlir:8:8: loops and branches of the device on values without a known size
// CHECK-NEXT: tosa.custom at {{.*}}dialects.mlir:15:8: the custom op 'swish' is not known
// CHECK-NEXT: math.acos at {{.*}}dialects.mlir:17:8: this op is not supported
func.func @main(%a: tensor<4xf32>, %p: tensor<i1>, %f: tensor<?xf32>) -> tensor<4xf32> {
  %0 = tosa.cond_if %p (%arg1 = %f, %arg2 = %f) : tensor<i1> (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32> {
  ^bb0(%b: tensor<?xf32>, %c: tensor<?xf32>):
    tosa.yield %b : tensor<?xf32>
  } else {
  ^bb0(%b: tensor<?xf32>, %c: tensor<?xf32>):
    tosa.yield %c : tensor<?xf32>
  }
  %1 = tosa.custom %a {domain_name = "mine", operator_name = "swish", implementation_attrs = ""} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = tosa.add %1, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = math.acos %a : tensor<4xf32>
  return %3 : tensor<4xf32>
}
