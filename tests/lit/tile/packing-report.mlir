// What the reports say of a packed product.
// RUN: hpu-compile %s --target gaudi2 -o %t.recipe --report tile | FileCheck %s
// RUN: hpu-compile %s --target gaudi2 -o %t.recipe --quiet --explain conv1 | FileCheck %s --check-prefix=EXPLAIN
// RUN: hpu-compile %s --target gaudi2 -o %t.recipe --report tile -O0 | FileCheck %s --check-prefix=PLAIN
// RUN: hpu-compile %s --target gaudi2 -o %t.recipe --report tile -O1 | FileCheck %s --check-prefix=PLAIN

// CHECK: == tile ==
// CHECK: packed 2 pixels: columns 64 -> 128 of 128, K 576 -> 768  conv1
// CHECK-NOT: packed
// EXPLAIN: tile
// EXPLAIN: packed 2 pixels: columns 64 -> 128 of 128, K 576 -> 768  conv1
// EXPLAIN: memory
// PLAIN: == tile ==
// PLAIN-NOT: packed
func.func @main(%x: tensor<8x64x56x56xf32>) -> tensor<8x512x56x56xf32> {
  %w = hpu.constant dense<0.5> : tensor<64x64x3x3xf32> : tensor<64x64x3x3xf32>
  %wide = hpu.constant dense<0.5> : tensor<512x64x3x3xf32> : tensor<512x64x3x3xf32>
  %0 = hpu.conv2d %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, groups = 1 : i64} : (tensor<8x64x56x56xf32>, tensor<64x64x3x3xf32>) -> tensor<8x64x56x56xf32> loc("conv1")
  %1 = hpu.conv2d %0, %wide {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, groups = 1 : i64} : (tensor<8x64x56x56xf32>, tensor<512x64x3x3xf32>) -> tensor<8x512x56x56xf32> loc("conv2")
  return %1 : tensor<8x512x56x56xf32>
}
