// RUN: hpu-opt %s --hpu-recognise-composites --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s

// As PyTorch 1.x and 2.x export nn.GELU: ((x * (1 + erf(x / sqrt 2))) * 0.5. All nodes stay in the location.
// CHECK-LABEL: func.func @pytorch(
// CHECK-SAME: %[[X:.*]]: tensor<2x8xf32>
// CHECK-NEXT: %[[G:.*]] = hpu.gelu %[[X]] : {{.*}} loc(fused["div", "erf", "add", "mul", "half"])
// CHECK-NEXT: return %[[G]]
func.func @pytorch(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %root = hpu.constant dense<1.41421354> : tensor<f32> : tensor<f32>
  %one = hpu.constant dense<1.0> : tensor<f32> : tensor<f32>
  %half = hpu.constant dense<0.5> : tensor<f32> : tensor<f32>
  %0 = hpu.div %x, %root : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32> loc("div")
  %1 = hpu.erf %0 : (tensor<2x8xf32>) -> tensor<2x8xf32> loc("erf")
  %2 = hpu.add %1, %one : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32> loc("add")
  %3 = hpu.mul %x, %2 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32> loc("mul")
  %4 = hpu.mul %3, %half : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32> loc("half")
  return %4 : tensor<2x8xf32>
}

// (0.5 * x) * (erf(x * 0.7071) + 1), with every product turned round.
// CHECK-LABEL: func.func @halfFirst(
// CHECK-SAME: %[[X:.*]]: tensor<8xf32>
// CHECK-NEXT: %[[G:.*]] = hpu.gelu %[[X]]
// CHECK-NEXT: return %[[G]]
func.func @halfFirst(%x: tensor<8xf32>) -> tensor<8xf32> {
  %root = hpu.constant dense<0.707106769> : tensor<f32> : tensor<f32>
  %one = hpu.constant dense<1.0> : tensor<8xf32> : tensor<8xf32>
  %half = hpu.constant dense<0.5> : tensor<f32> : tensor<f32>
  %0 = hpu.mul %root, %x : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = hpu.erf %0 : (tensor<8xf32>) -> tensor<8xf32>
  %2 = hpu.add %one, %1 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %3 = hpu.mul %half, %x : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = hpu.mul %2, %3 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}

// x * ((1 + erf) / 2), where x itself is a product.
// CHECK-LABEL: func.func @ofProduct(
// CHECK: %[[X:.*]] = hpu.mul %{{.*}}, %{{.*}} :
// CHECK-NEXT: %[[G:.*]] = hpu.gelu %[[X]]
// CHECK-NEXT: return %[[G]]
func.func @ofProduct(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %root = hpu.constant dense<1.41421354> : tensor<f32> : tensor<f32>
  %one = hpu.constant dense<1.0> : tensor<f32> : tensor<f32>
  %two = hpu.constant dense<2.0> : tensor<f32> : tensor<f32>
  %x = hpu.mul %a, %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %0 = hpu.div %x, %root : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = hpu.erf %0 : (tensor<8xf32>) -> tensor<8xf32>
  %2 = hpu.add %1, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %3 = hpu.div %2, %two : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %4 = hpu.mul %x, %3 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}

// gpt2's NewGELU with pow, and the form that exporters make of F.gelu(approximate='tanh').
// CHECK-LABEL: func.func @tanhWithPow(
// CHECK-SAME: %[[X:.*]]: tensor<8xf32>
// CHECK-NEXT: %[[G:.*]] = hpu.gelu %[[X]] {tanh_approximation = true}
// CHECK-NEXT: return %[[G]]
func.func @tanhWithPow(%x: tensor<8xf32>) -> tensor<8xf32> {
  %half = hpu.constant dense<0.5> : tensor<f32> : tensor<f32>
  %three = hpu.constant dense<3.0> : tensor<f32> : tensor<f32>
  %c = hpu.constant dense<4.471500e-02> : tensor<f32> : tensor<f32>
  %k = hpu.constant dense<0.797884583> : tensor<f32> : tensor<f32>
  %one = hpu.constant dense<1.0> : tensor<f32> : tensor<f32>
  %0 = hpu.mul %x, %half : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = hpu.pow %x, %three : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = hpu.mul %1, %c : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %3 = hpu.add %x, %2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = hpu.mul %3, %k : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %5 = hpu.tanh %4 : (tensor<8xf32>) -> tensor<8xf32>
  %6 = hpu.add %5, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %7 = hpu.mul %0, %6 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %7 : tensor<8xf32>
}
// CHECK-LABEL: func.func @tanhWithMul(
// CHECK-SAME: %[[X:.*]]: tensor<8xf32>
// CHECK-NEXT: %[[G:.*]] = hpu.gelu %[[X]] {tanh_approximation = true}
func.func @tanhWithMul(%x: tensor<8xf32>) -> tensor<8xf32> {
  %half = hpu.constant dense<0.5> : tensor<f32> : tensor<f32>
  %c = hpu.constant dense<4.471500e-02> : tensor<f32> : tensor<f32>
  %k = hpu.constant dense<0.797884583> : tensor<f32> : tensor<f32>
  %one = hpu.constant dense<1.0> : tensor<f32> : tensor<f32>
  %0 = hpu.mul %x, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = hpu.mul %x, %0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = hpu.mul %c, %1 : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
  %3 = hpu.add %2, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = hpu.mul %k, %3 : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
  %5 = hpu.tanh %4 : (tensor<8xf32>) -> tensor<8xf32>
  %6 = hpu.add %one, %5 : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
  %7 = hpu.mul %half, %6 : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
  %8 = hpu.mul %x, %7 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %8 : tensor<8xf32>
}

// Wrong constants and another x are not a gelu.
// CHECK-LABEL: func.func @almost(
// CHECK-NOT: hpu.gelu
// CHECK: return
func.func @almost(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %root = hpu.constant dense<1.41421354> : tensor<f32> : tensor<f32>
  %other = hpu.constant dense<1.5> : tensor<f32> : tensor<f32>
  %one = hpu.constant dense<1.0> : tensor<f32> : tensor<f32>
  %half = hpu.constant dense<0.5> : tensor<f32> : tensor<f32>
  %0 = hpu.div %x, %other : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = hpu.erf %0 : (tensor<8xf32>) -> tensor<8xf32>
  %2 = hpu.add %1, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %3 = hpu.mul %x, %2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = hpu.mul %3, %half : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %5 = hpu.div %x, %root : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %6 = hpu.erf %5 : (tensor<8xf32>) -> tensor<8xf32>
  %7 = hpu.add %6, %one : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %8 = hpu.mul %y, %7 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %9 = hpu.mul %8, %half : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %4, %9 : tensor<8xf32>, tensor<8xf32>
}
