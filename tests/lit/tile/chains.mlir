// Results that stay in SRAM because their only reader takes turns with their producer.
// RUN: hpu-opt %s --hpu-fuse --hpu-layout --hpu-tile --hpu-verify-tile --split-input-file | FileCheck %s
// RUN: hpu-opt %s --hpu-fuse --hpu-layout --hpu-tile="optimize=false" --hpu-verify-tile --split-input-file | FileCheck %s --check-prefix=APART

// -O0 and -O1 do not chain.
// APART-NOT: hpu.chain

// Attention: the probabilities of 16 heads are 64 MiB; those of a few heads are in SRAM twice, and the product with the
// values is cut alike.
// CHECK-LABEL: func.func @attention(
// CHECK: hpu.bundle
// CHECK-SAME: hpu.chain = array<i64: 1, 2>
// CHECK-SAME: tile = #hpu.tile<[1, [[HEADS:[1-8]]], 1024, 1024], slots = 2>
// CHECK: hpu.softmax
// CHECK: hpu.bundle
// CHECK-NOT: hpu.chain
// CHECK-SAME: tile = #hpu.tile<[1, [[HEADS]], 1024, 64]>
func.func @attention(%q: tensor<1x16x1024x64xf32>, %k: tensor<1x16x64x1024xf32>, %v: tensor<1x16x1024x64xf32>) -> tensor<1x16x1024x64xf32> {
  %scale = hpu.constant dense<0.125> : tensor<f32> : tensor<f32>
  %0 = hpu.matmul %q, %k : (tensor<1x16x1024x64xf32>, tensor<1x16x64x1024xf32>) -> tensor<1x16x1024x1024xf32>
  %1 = hpu.mul %0, %scale : (tensor<1x16x1024x1024xf32>, tensor<f32>) -> tensor<1x16x1024x1024xf32>
  %2 = hpu.softmax %1 {axis = 3 : i64} : (tensor<1x16x1024x1024xf32>) -> tensor<1x16x1024x1024xf32>
  %3 = hpu.matmul %2, %v : (tensor<1x16x1024x1024xf32>, tensor<1x16x1024x64xf32>) -> tensor<1x16x1024x64xf32>
  return %3 : tensor<1x16x1024x64xf32>
}

// -----

// One head of 8192 rows, 256 MiB of scores, is cut along the queries: rows of keys are whole.
// CHECK-LABEL: func.func @oneHead(
// CHECK: hpu.bundle
// CHECK-SAME: hpu.chain = array<i64: 0, 2>
// CHECK-SAME: tile = #hpu.tile<[[[ROWS:[0-9]+]], 8192], slots = 2>
// CHECK: hpu.bundle
// CHECK-SAME: tile = #hpu.tile<[[[ROWS]], 128]>
func.func @oneHead(%q: tensor<8192x128xf32>, %k: tensor<128x8192xf32>, %v: tensor<8192x128xf32>) -> tensor<8192x128xf32> {
  %0 = hpu.matmul %q, %k : (tensor<8192x128xf32>, tensor<128x8192xf32>) -> tensor<8192x8192xf32>
  %1 = hpu.softmax %0 {axis = 1 : i64} : (tensor<8192x8192xf32>) -> tensor<8192x8192xf32>
  %2 = hpu.matmul %1, %v : (tensor<8192x8192xf32>, tensor<8192x128xf32>) -> tensor<8192x128xf32>
  return %2 : tensor<8192x128xf32>
}

// -----

// Heads and batch become one dimension between the two: a slice has eight times as many of the reader's.
// CHECK-LABEL: func.func @throughAReshape(
// CHECK: hpu.bundle
// CHECK-SAME: hpu.chain = array<i64: 0, 2>
// CHECK-SAME: tile = #hpu.tile<{{\[}}[[#SIZE:]], 8, 256, 256], slots = 2>
// CHECK: hpu.reshape
// CHECK-NEXT: hpu.bundle
// CHECK-SAME: tile = #hpu.tile<{{\[}}[[#mul(SIZE,8)]], 256, 64]>
func.func @throughAReshape(%q: tensor<64x8x256x64xbf16>, %k: tensor<64x8x64x256xbf16>, %v: tensor<512x256x64xbf16>) -> tensor<512x256x64xbf16> {
  %0 = hpu.matmul %q, %k : (tensor<64x8x256x64xbf16>, tensor<64x8x64x256xbf16>) -> tensor<64x8x256x256xbf16>
  %1 = hpu.softmax %0 {axis = 3 : i64} : (tensor<64x8x256x256xbf16>) -> tensor<64x8x256x256xbf16>
  %2 = hpu.reshape %1 {shape = array<i64: 512, 256, 256>} : (tensor<64x8x256x256xbf16>) -> tensor<512x256x256xbf16>
  %3 = hpu.matmul %2, %v : (tensor<512x256x256xbf16>, tensor<512x256x64xbf16>) -> tensor<512x256x64xbf16>
  return %3 : tensor<512x256x64xbf16>
}

// -----

// Of a small result there is one tile.
// CHECK-LABEL: func.func @whole(
// CHECK: hpu.chain = array<i64: 0, 1>
func.func @whole(%q: tensor<16x64xf32>, %k: tensor<64x16xf32>, %v: tensor<16x64xf32>) -> tensor<16x64xf32> {
  %0 = hpu.matmul %q, %k : (tensor<16x64xf32>, tensor<64x16xf32>) -> tensor<16x16xf32>
  %1 = hpu.softmax %0 {axis = 1 : i64} : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %2 = hpu.matmul %1, %v : (tensor<16x16xf32>, tensor<16x64xf32>) -> tensor<16x64xf32>
  return %2 : tensor<16x64xf32>
}

// -----

// Two rows of four million keys, as product and as probabilities, do not fit into SRAM together.
// CHECK-LABEL: func.func @rowTooLong(
// CHECK-NOT: hpu.chain
// CHECK: return
func.func @rowTooLong(%q: tensor<8x64xf32>, %k: tensor<64x3000000xf32>, %v: tensor<3000000x64xf32>) -> tensor<8x64xf32> {
  %0 = hpu.matmul %q, %k : (tensor<8x64xf32>, tensor<64x3000000xf32>) -> tensor<8x3000000xf32>
  %1 = hpu.softmax %0 {axis = 1 : i64} : (tensor<8x3000000xf32>) -> tensor<8x3000000xf32>
  %2 = hpu.matmul %1, %v : (tensor<8x3000000xf32>, tensor<3000000x64xf32>) -> tensor<8x64xf32>
  return %2 : tensor<8x64xf32>
}

// -----

// The reader wants all rows of the result at a time: as its right operand, and too large to be whole.
// CHECK-LABEL: func.func @rightOperand(
// CHECK-NOT: hpu.chain
// CHECK: return
func.func @rightOperand(%x: tensor<8192x256xf32>, %w: tensor<256x8192xf32>, %y: tensor<64x8192xf32>) -> tensor<64x8192xf32> {
  %0 = hpu.matmul %x, %w : (tensor<8192x256xf32>, tensor<256x8192xf32>) -> tensor<8192x8192xf32>
  %1 = hpu.relu %0 : (tensor<8192x8192xf32>) -> tensor<8192x8192xf32>
  %2 = hpu.matmul %y, %1 : (tensor<64x8192xf32>, tensor<8192x8192xf32>) -> tensor<64x8192xf32>
  return %2 : tensor<64x8192xf32>
}

// -----

// A second reader needs the result in HBM.
// CHECK-LABEL: func.func @readTwice(
// CHECK-NOT: hpu.chain = array<i64: 0
// CHECK: return
func.func @readTwice(%x: tensor<2048x1024xf32>, %w: tensor<1024x1024xf32>) -> (tensor<2048x1024xf32>, tensor<2048x1024xf32>) {
  %0 = hpu.matmul %x, %w : (tensor<2048x1024xf32>, tensor<1024x1024xf32>) -> tensor<2048x1024xf32>
  %1 = hpu.relu %0 : (tensor<2048x1024xf32>) -> tensor<2048x1024xf32>
  %2 = hpu.matmul %1, %w : (tensor<2048x1024xf32>, tensor<1024x1024xf32>) -> tensor<2048x1024xf32>
  return %1, %2 : tensor<2048x1024xf32>, tensor<2048x1024xf32>
}
