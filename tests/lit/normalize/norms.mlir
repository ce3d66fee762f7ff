// RUN: hpu-opt %s --hpu-recognise-composites --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s

// As exported at opset 13, where there is no LayerNormalization.
// CHECK-LABEL: func.func @layerNorm(
// CHECK-SAME: %[[X:.*]]: tensor<2x5x4xf32>
// CHECK-DAG: %[[S:.*]] = hpu.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]> : tensor<4xf32>
// CHECK-DAG: %[[B:.*]] = hpu.constant dense<[5.000000e-01, 2.500000e-01, 7.500000e-01, 1.500000e+00]> : tensor<4xf32>
// CHECK: %[[N:.*]] = hpu.layer_norm %[[X]], %[[S]], %[[B]] {axis = 2 : i64, epsilon = {{.*E-6}} : f64}
// CHECK-SAME: "mean"{{.*}}"sub"{{.*}}"pow"{{.*}}"var"{{.*}}"eps"{{.*}}"sqrt"{{.*}}"div"{{.*}}"scale"{{.*}}"bias"
// CHECK-NEXT: return %[[N]]
func.func @layerNorm(%x: tensor<2x5x4xf32>) -> tensor<2x5x4xf32> {
  %two = hpu.constant dense<2.0> : tensor<f32> : tensor<f32>
  %eps = hpu.constant dense<1.0e-5> : tensor<f32> : tensor<f32>
  %gamma = hpu.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32> : tensor<4xf32>
  %beta = hpu.constant dense<[[[0.5, 0.25, 0.75, 1.5]]]> : tensor<1x1x4xf32> : tensor<1x1x4xf32>
  %mean = hpu.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : (tensor<2x5x4xf32>) -> tensor<2x5x1xf32> loc("mean")
  %sub = hpu.sub %x, %mean : (tensor<2x5x4xf32>, tensor<2x5x1xf32>) -> tensor<2x5x4xf32> loc("sub")
  %pow = hpu.pow %sub, %two : (tensor<2x5x4xf32>, tensor<f32>) -> tensor<2x5x4xf32> loc("pow")
  %var = hpu.reduce_mean %pow {axes = array<i64: 2>, keepdims = true} : (tensor<2x5x4xf32>) -> tensor<2x5x1xf32> loc("var")
  %a = hpu.add %var, %eps : (tensor<2x5x1xf32>, tensor<f32>) -> tensor<2x5x1xf32> loc("eps")
  %s = hpu.sqrt %a : (tensor<2x5x1xf32>) -> tensor<2x5x1xf32> loc("sqrt")
  %d = hpu.div %sub, %s : (tensor<2x5x4xf32>, tensor<2x5x1xf32>) -> tensor<2x5x4xf32> loc("div")
  %m = hpu.mul %d, %gamma : (tensor<2x5x4xf32>, tensor<4xf32>) -> tensor<2x5x4xf32> loc("scale")
  %r = hpu.add %m, %beta : (tensor<2x5x4xf32>, tensor<1x1x4xf32>) -> tensor<2x5x4xf32> loc("bias")
  return %r : tensor<2x5x4xf32>
}

// Over two dims, with rsqrt, without scale: a scale of ones is made.
// CHECK-LABEL: func.func @layerNormPlain(
// CHECK-SAME: %[[X:.*]]: tensor<2x5x4xf32>
// CHECK: %[[ONES:.*]] = hpu.constant dense<1.000000e+00> : tensor<5x4xf32>
// CHECK: %[[N:.*]] = hpu.layer_norm %[[X]], %[[ONES]] {axis = 1 : i64
// CHECK-NEXT: return %[[N]]
func.func @layerNormPlain(%x: tensor<2x5x4xf32>) -> tensor<2x5x4xf32> {
  %eps = hpu.constant dense<1.0e-5> : tensor<f32> : tensor<f32>
  %mean = hpu.reduce_mean %x {axes = array<i64: 2, 1>} : (tensor<2x5x4xf32>) -> tensor<2x1x1xf32>
  %sub = hpu.sub %x, %mean : (tensor<2x5x4xf32>, tensor<2x1x1xf32>) -> tensor<2x5x4xf32>
  %sub2 = hpu.sub %x, %mean : (tensor<2x5x4xf32>, tensor<2x1x1xf32>) -> tensor<2x5x4xf32>
  %pow = hpu.mul %sub2, %sub2 : (tensor<2x5x4xf32>, tensor<2x5x4xf32>) -> tensor<2x5x4xf32>
  %var = hpu.reduce_mean %pow {axes = array<i64: 2, 1>} : (tensor<2x5x4xf32>) -> tensor<2x1x1xf32>
  %a = hpu.add %eps, %var : (tensor<f32>, tensor<2x1x1xf32>) -> tensor<2x1x1xf32>
  %s = hpu.rsqrt %a : (tensor<2x1x1xf32>) -> tensor<2x1x1xf32>
  %d = hpu.mul %s, %sub : (tensor<2x1x1xf32>, tensor<2x5x4xf32>) -> tensor<2x5x4xf32>
  return %d : tensor<2x5x4xf32>
}

// Dims that are not the last ones are not a layer norm.
// CHECK-LABEL: func.func @firstDims(
// CHECK-NOT: hpu.layer_norm
// CHECK: return
func.func @firstDims(%x: tensor<2x5x4xf32>) -> tensor<2x5x4xf32> {
  %eps = hpu.constant dense<1.0e-5> : tensor<f32> : tensor<f32>
  %mean = hpu.reduce_mean %x {axes = array<i64: 0>} : (tensor<2x5x4xf32>) -> tensor<1x5x4xf32>
  %sub = hpu.sub %x, %mean : (tensor<2x5x4xf32>, tensor<1x5x4xf32>) -> tensor<2x5x4xf32>
  %pow = hpu.mul %sub, %sub : (tensor<2x5x4xf32>, tensor<2x5x4xf32>) -> tensor<2x5x4xf32>
  %var = hpu.reduce_mean %pow {axes = array<i64: 0>} : (tensor<2x5x4xf32>) -> tensor<1x5x4xf32>
  %a = hpu.add %var, %eps : (tensor<1x5x4xf32>, tensor<f32>) -> tensor<1x5x4xf32>
  %s = hpu.sqrt %a : (tensor<1x5x4xf32>) -> tensor<1x5x4xf32>
  %d = hpu.div %sub, %s : (tensor<2x5x4xf32>, tensor<1x5x4xf32>) -> tensor<2x5x4xf32>
  return %d : tensor<2x5x4xf32>
}

// RMSNorm: by the root of the mean of squares, as a quotient and as a product; the scale may be the first factor.
// CHECK-LABEL: func.func @rms(
// CHECK-SAME: %[[X:.*]]: tensor<2x5x4xf32>
// CHECK: %[[N:.*]] = hpu.layer_norm %[[X]], %{{.*}} {axis = 2 : i64, centred = false, epsilon = {{.*}}}
// CHECK: %[[M:.*]] = hpu.layer_norm %[[X]], %{{.*}} {axis = 1 : i64, centred = false, epsilon = {{.*}}}
// CHECK: return %[[N]], %[[M]]
func.func @rms(%x: tensor<2x5x4xf32>) -> (tensor<2x5x4xf32>, tensor<2x5x4xf32>) {
  %two = hpu.constant dense<2.0> : tensor<f32> : tensor<f32>
  %eps = hpu.constant dense<1.0e-06> : tensor<f32> : tensor<f32>
  %w = hpu.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32> : tensor<4xf32>
  %sq = hpu.pow %x, %two : (tensor<2x5x4xf32>, tensor<f32>) -> tensor<2x5x4xf32>
  %m = hpu.reduce_mean %sq {axes = array<i64: 2>} : (tensor<2x5x4xf32>) -> tensor<2x5x1xf32>
  %e = hpu.add %m, %eps : (tensor<2x5x1xf32>, tensor<f32>) -> tensor<2x5x1xf32>
  %s = hpu.sqrt %e : (tensor<2x5x1xf32>) -> tensor<2x5x1xf32>
  %r = hpu.reciprocal %s : (tensor<2x5x1xf32>) -> tensor<2x5x1xf32>
  %n = hpu.mul %x, %r : (tensor<2x5x4xf32>, tensor<2x5x1xf32>) -> tensor<2x5x4xf32>
  %y = hpu.mul %w, %n : (tensor<4xf32>, tensor<2x5x4xf32>) -> tensor<2x5x4xf32>
  %sq2 = hpu.mul %x, %x : (tensor<2x5x4xf32>, tensor<2x5x4xf32>) -> tensor<2x5x4xf32>
  %m2 = hpu.reduce_mean %sq2 {axes = array<i64: 1, 2>} : (tensor<2x5x4xf32>) -> tensor<2x1x1xf32>
  %e2 = hpu.add %eps, %m2 : (tensor<f32>, tensor<2x1x1xf32>) -> tensor<2x1x1xf32>
  %s2 = hpu.sqrt %e2 : (tensor<2x1x1xf32>) -> tensor<2x1x1xf32>
  %d = hpu.div %x, %s2 : (tensor<2x5x4xf32>, tensor<2x1x1xf32>) -> tensor<2x5x4xf32>
  return %y, %d : tensor<2x5x4xf32>, tensor<2x5x4xf32>
}

// CHECK-LABEL: func.func @softmax(
// CHECK-SAME: %[[X:.*]]: tensor<2x5xf32>
// CHECK-NEXT: %[[S:.*]] = hpu.softmax %[[X]] {axis = 1 : i64}
// CHECK-NEXT: %[[L:.*]] = hpu.log_softmax %[[X]] {axis = 1 : i64}
// CHECK-NEXT: return %[[S]], %[[L]]
func.func @softmax(%x: tensor<2x5xf32>) -> (tensor<2x5xf32>, tensor<2x5xf32>) {
  %max = hpu.reduce_max %x {axes = array<i64: 1>} : (tensor<2x5xf32>) -> tensor<2x1xf32>
  %sub = hpu.sub %x, %max : (tensor<2x5xf32>, tensor<2x1xf32>) -> tensor<2x5xf32>
  %exp = hpu.exp %sub : (tensor<2x5xf32>) -> tensor<2x5xf32>
  %sum = hpu.reduce_sum %exp {axes = array<i64: 1>} : (tensor<2x5xf32>) -> tensor<2x1xf32>
  %div = hpu.div %exp, %sum : (tensor<2x5xf32>, tensor<2x1xf32>) -> tensor<2x5xf32>
  %log = hpu.log %sum : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %lsm = hpu.sub %sub, %log : (tensor<2x5xf32>, tensor<2x1xf32>) -> tensor<2x5xf32>
  return %div, %lsm : tensor<2x5xf32>, tensor<2x5xf32>
}

// Without the maximum large inputs overflow; that is not the same function.
// CHECK-LABEL: func.func @unstable(
// CHECK-NOT: hpu.softmax
// CHECK: return
func.func @unstable(%x: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %exp = hpu.exp %x : (tensor<2x5xf32>) -> tensor<2x5xf32>
  %sum = hpu.reduce_sum %exp {axes = array<i64: 1>} : (tensor<2x5xf32>) -> tensor<2x1xf32>
  %div = hpu.div %exp, %sum : (tensor<2x5xf32>, tensor<2x1xf32>) -> tensor<2x5xf32>
  return %div : tensor<2x5xf32>
}
