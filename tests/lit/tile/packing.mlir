// Products with few columns: neighbouring pixels of a row are computed as one.
// RUN: hpu-opt %s --hpu-fuse --hpu-layout --hpu-tile --hpu-verify-tile | FileCheck %s
// RUN: hpu-opt %s --hpu-fuse --hpu-layout --hpu-tile="optimize=false" --hpu-verify-tile | FileCheck %s --check-prefix=PLAIN
// PLAIN-NOT: hpu.packing

// 64 channels are half of the array's width. The second convolution fills it; the last one's result is channels first,
// as the function's is, so that pixels do not lie one behind the other.
// CHECK-LABEL: func.func @few(
// CHECK: hpu.conv2d {{.*}}hpu.packing = 2 : i64{{.*}} -> tensor<8x64x56x56xf32>
// CHECK: hpu.conv2d
// CHECK-NOT: hpu.packing
// CHECK: hpu.conv2d
// CHECK-NOT: hpu.packing
// CHECK: return
func.func @few(%x: tensor<8x64x56x56xf32>) -> tensor<8x64x56x56xf32> {
  %w = hpu.constant dense<0.5> : tensor<64x64x3x3xf32> : tensor<64x64x3x3xf32>
  %wide = hpu.constant dense<0.5> : tensor<512x64x3x3xf32> : tensor<512x64x3x3xf32>
  %back = hpu.constant dense<0.5> : tensor<64x512x3x3xf32> : tensor<64x512x3x3xf32>
  %0 = hpu.conv2d %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, groups = 1 : i64} : (tensor<8x64x56x56xf32>, tensor<64x64x3x3xf32>) -> tensor<8x64x56x56xf32>
  %1 = hpu.relu %0 : (tensor<8x64x56x56xf32>) -> tensor<8x64x56x56xf32>
  %2 = hpu.conv2d %1, %wide {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, groups = 1 : i64} : (tensor<8x64x56x56xf32>, tensor<512x64x3x3xf32>) -> tensor<8x512x56x56xf32>
  %3 = hpu.relu %2 : (tensor<8x512x56x56xf32>) -> tensor<8x512x56x56xf32>
  %4 = hpu.conv2d %3, %back {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, groups = 1 : i64} : (tensor<8x512x56x56xf32>, tensor<64x512x3x3xf32>) -> tensor<8x64x56x56xf32>
  return %4 : tensor<8x64x56x56xf32>
}

// Weights that are not constant cannot have zeros put between them.
// CHECK-LABEL: func.func @variable(
// CHECK-NOT: hpu.packing
// CHECK: return
func.func @variable(%x: tensor<8x64x56x56xf32>, %w: tensor<64x64x3x3xf32>) -> tensor<8x64x56x56xf32> {
  %0 = hpu.conv2d %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, groups = 1 : i64} : (tensor<8x64x56x56xf32>, tensor<64x64x3x3xf32>) -> tensor<8x64x56x56xf32>
  %1 = hpu.conv2d %0, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, groups = 1 : i64} : (tensor<8x64x56x56xf32>, tensor<64x64x3x3xf32>) -> tensor<8x64x56x56xf32>
  return %1 : tensor<8x64x56x56xf32>
}

// Rows of a product, whose K stays below the roll-up.
// CHECK-LABEL: func.func @rows(
// CHECK: hpu.matmul {{.*}}hpu.packing = {{[0-9]+}} : i64
// CHECK: return
func.func @rows(%x: tensor<65536x32xbf16>) -> tensor<65536x32xbf16> {
  %w = hpu.constant dense<0.5> : tensor<32x32xbf16> : tensor<32x32xbf16>
  %0 = hpu.matmul %x, %w : (tensor<65536x32xbf16>, tensor<32x32xbf16>) -> tensor<65536x32xbf16>
  return %0 : tensor<65536x32xbf16>
}
