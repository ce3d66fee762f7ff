// How units are cut into slices that the engines work on side by side.
// RUN: hpu-opt %s --hpu-fuse --hpu-layout --hpu-tile --hpu-verify-tile | FileCheck %s
// RUN: hpu-opt %s --hpu-fuse --hpu-layout --hpu-tile="optimize=false" --hpu-verify-tile | FileCheck %s --check-prefix=WHOLE

// A large product is cut along its rows and double-buffered.
// CHECK-LABEL: func.func @large(
// CHECK: hpu.bundle
// CHECK-SAME: tile = #hpu.tile<[{{[0-9]+}}, 4096], slots = 2>
// Without slicing, only what SRAM asks for is cut: a tile of at most a quarter of 48 MiB, which is 768 rows.
// WHOLE-LABEL: func.func @large(
// WHOLE: hpu.bundle
// WHOLE-SAME: tile = #hpu.tile<[683, 4096], slots = 2>
func.func @large(%x: tensor<4096x1024xf32>, %w: tensor<1024x4096xf32>) -> tensor<4096x4096xf32> {
  %0 = hpu.matmul %x, %w : (tensor<4096x1024xf32>, tensor<1024x4096xf32>) -> tensor<4096x4096xf32>
  %1 = hpu.relu %0 : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  return %1 : tensor<4096x4096xf32>
}

// A small one is not worth a second command.
// CHECK-LABEL: func.func @small(
// CHECK: hpu.bundle
// CHECK-SAME: tile = #hpu.tile<[4, 8]>
// WHOLE-LABEL: func.func @small(
// WHOLE: tile = #hpu.tile<[4, 8]>
func.func @small(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %0 = hpu.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = hpu.relu %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// A convolution is cut along batch or rows, never along channels or columns.
// CHECK-LABEL: func.func @convolution(
// CHECK: hpu.bundle
// CHECK-SAME: tile = #hpu.tile<[1, 256, {{[0-9]+}}, 224], slots = 2>
func.func @convolution(%x: tensor<1x64x224x224xf32>) -> tensor<1x256x224x224xf32> {
  %w = hpu.constant dense<0.5> : tensor<256x64x3x3xf32> : tensor<256x64x3x3xf32>
  %0 = hpu.conv2d %x, %w {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, groups = 1 : i64} : (tensor<1x64x224x224xf32>, tensor<256x64x3x3xf32>) -> tensor<1x256x224x224xf32>
  %1 = hpu.relu %0 : (tensor<1x256x224x224xf32>) -> tensor<1x256x224x224xf32>
  return %1 : tensor<1x256x224x224xf32>
}

// An MME op alone and a cluster have nothing to overlap with.
// CHECK-LABEL: func.func @alone(
// CHECK-NOT: #hpu.tile
// CHECK: return
func.func @alone(%x: tensor<4096x1024xf32>, %w: tensor<1024x4096xf32>) -> tensor<4096x4096xf32> {
  %0 = hpu.matmul %x, %w : (tensor<4096x1024xf32>, tensor<1024x4096xf32>) -> tensor<4096x4096xf32>
  %1 = hpu.softmax %0 {axis = 0 : i64} : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  return %1 : tensor<4096x4096xf32>
}

// A kernel that follows a long chain of others is cut like its neighbours, and so is an MME op without TPC ops.
// CHECK-LABEL: func.func @chain(
// CHECK: hpu.bundle
// CHECK-SAME: tile = #hpu.tile<[{{[1-7]}}, 1024, 1024], slots = 2>
// CHECK: hpu.cluster
// CHECK-SAME: tile = #hpu.tile<[{{[1-7]}}, 1024, 1024]>
// CHECK: hpu.bundle
// CHECK-SAME: tile = #hpu.tile<[{{[1-7]}}, 1024, 1024]>
// WHOLE-LABEL: func.func @chain(
// WHOLE: hpu.cluster
// WHOLE-NOT: tile
// WHOLE: return
func.func @chain(%x: tensor<8x1024x1024xbf16>) -> tensor<8x1024x1024xbf16> {
  %w = hpu.constant dense<0.5> : tensor<1024x1024xbf16> : tensor<1024x1024xbf16>
  %0 = hpu.matmul %x, %w : (tensor<8x1024x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<8x1024x1024xbf16>
  %1 = hpu.gelu %0 : (tensor<8x1024x1024xbf16>) -> tensor<8x1024x1024xbf16>
  %2 = hpu.softmax %1 {axis = 1 : i64} : (tensor<8x1024x1024xbf16>) -> tensor<8x1024x1024xbf16>
  %3 = hpu.matmul %2, %w : (tensor<8x1024x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<8x1024x1024xbf16>
  return %3 : tensor<8x1024x1024xbf16>
}

// Not even one row of a product fits: the MME writes it to HBM, and the rest is a kernel that reads it from there.
// CHECK-LABEL: func.func @noTileFits(
// CHECK: %[[P:.*]] = hpu.bundle
// CHECK-NOT: slots
// CHECK: hpu.matmul
// CHECK-NEXT: hpu.yield
// CHECK: %[[R:.*]]:2 = hpu.cluster (%{{.*}} = %[[P]], %[[M:.*]] = %{{.*}})
// CHECK-NEXT: %[[A:.*]] = hpu.add %{{.*}}, %[[M]]
// CHECK-NEXT: %[[E:.*]] = hpu.relu %[[A]]
// CHECK-NEXT: hpu.yield %[[E]], %[[A]]
// CHECK: return %[[R]]#0, %[[R]]#1
func.func @noTileFits(%q: tensor<64x32x4096x64xf32>, %k: tensor<64x32x64x4096xf32>, %mask: tensor<4096x4096xf32>) -> (tensor<64x32x4096x4096xf32>, tensor<64x32x4096x4096xf32>) {
  %0 = hpu.matmul %q, %k : (tensor<64x32x4096x64xf32>, tensor<64x32x64x4096xf32>) -> tensor<64x32x4096x4096xf32>
  %1 = hpu.add %0, %mask : (tensor<64x32x4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<64x32x4096x4096xf32>
  %2 = hpu.relu %1 : (tensor<64x32x4096x4096xf32>) -> tensor<64x32x4096x4096xf32>
  return %2, %1 : tensor<64x32x4096x4096xf32>, tensor<64x32x4096x4096xf32>
}

// A tile holds the product: that the unit's result is of a wider type, which goes to HBM, does not make it too large.
// CHECK-LABEL: func.func @widerResult(
// CHECK: hpu.bundle
// CHECK-SAME: tile = #hpu.tile<
// CHECK: hpu.cast
// WHOLE-LABEL: func.func @widerResult(
// WHOLE: hpu.bundle
// WHOLE-SAME: tile = #hpu.tile<[1, 22, 2048, 128], slots = 2>
func.func @widerResult(%x: tensor<1x32x2048x2048xbf16>, %w: tensor<1x32x2048x128xbf16>) -> tensor<1x32x2048x128xf32> {
  %0 = hpu.matmul %x, %w : (tensor<1x32x2048x2048xbf16>, tensor<1x32x2048x128xbf16>) -> tensor<1x32x2048x128xbf16>
  %1 = hpu.cast %0 {to = f32} : (tensor<1x32x2048x128xbf16>) -> tensor<1x32x2048x128xf32>
  return %1 : tensor<1x32x2048x128xf32>
}
