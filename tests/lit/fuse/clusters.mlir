// TPC ops over one index space become one kernel.
// RUN: hpu-opt %s --hpu-fuse --hpu-verify-fused | FileCheck %s

// Producers of a softmax that have its shape belong to its kernel, and so does what follows it.
// CHECK-LABEL: func.func @softmaxWithProducers(
// CHECK-NEXT: hpu.cluster
// CHECK-NEXT: hpu.mul
// CHECK-NEXT: hpu.add
// CHECK-NEXT: hpu.softmax
// CHECK-NEXT: hpu.relu
// CHECK-NEXT: hpu.yield
// CHECK-NOT: hpu.cluster
// CHECK: return
func.func @softmaxWithProducers(%x: tensor<2x8xf32>, %scale: tensor<8xf32>, %mask: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = hpu.mul %x, %scale : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  %1 = hpu.add %0, %mask : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %2 = hpu.softmax %1 {axis = 1 : i64} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %3 = hpu.relu %2 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  return %3 : tensor<2x8xf32>
}

// One op fixes the index space; a second one begins its own unit.
// CHECK-LABEL: func.func @twoSoftmaxes(
// CHECK: hpu.cluster
// CHECK-NEXT: hpu.softmax
// CHECK-NEXT: hpu.relu
// CHECK-NEXT: hpu.yield
// CHECK: hpu.cluster
// CHECK-NEXT: hpu.softmax
// CHECK-NEXT: hpu.yield
func.func @twoSoftmaxes(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = hpu.softmax %x {axis = 1 : i64} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = hpu.relu %0 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %2 = hpu.softmax %1 {axis = 1 : i64} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  return %2 : tensor<2x8xf32>
}

// A result of another shape is another index space.
// CHECK-LABEL: func.func @broadcastsItsResult(
// CHECK: hpu.cluster
// CHECK-NEXT: hpu.relu
// CHECK-NEXT: hpu.yield
// CHECK: hpu.cluster
// CHECK-NEXT: hpu.add
// CHECK-NEXT: hpu.yield
func.func @broadcastsItsResult(%x: tensor<8xf32>, %y: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = hpu.relu %x : (tensor<8xf32>) -> tensor<8xf32>
  %1 = hpu.add %0, %y : (tensor<8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}

// What nobody reads is no unit.
// CHECK-LABEL: func.func @dead(
// CHECK-NEXT: return
func.func @dead(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = hpu.relu %x : (tensor<8xf32>) -> tensor<8xf32>
  %1 = hpu.tanh %0 : (tensor<8xf32>) -> tensor<8xf32>
  return %x : tensor<8xf32>
}

// Copies are units by themselves.
// CHECK-LABEL: func.func @copies(
// CHECK: %[[A:.*]] = hpu.cluster
// CHECK: %[[B:.*]] = hpu.cluster
// CHECK: %[[C:.*]] = hpu.concat %[[A]], %[[B]]
// CHECK: hpu.cluster (%{{.*}} = %[[C]])
func.func @copies(%x: tensor<2x8xf32>, %y: tensor<3x8xf32>) -> tensor<5x8xf32> {
  %0 = hpu.relu %x : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = hpu.tanh %y : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %2 = hpu.concat %0, %1 {axis = 0 : i64} : (tensor<2x8xf32>, tensor<3x8xf32>) -> tensor<5x8xf32>
  %3 = hpu.neg %2 : (tensor<5x8xf32>) -> tensor<5x8xf32>
  return %3 : tensor<5x8xf32>
}

// A kernel has at most 16 tensors, results included: seven sums that are all results, and the addends, are 15.
// CHECK-LABEL: func.func @manyResults(
// CHECK: hpu.cluster
// CHECK-COUNT-7: hpu.add
// CHECK-NEXT: hpu.yield
// CHECK: hpu.cluster
// CHECK-COUNT-3: hpu.add
// CHECK-NEXT: hpu.yield
func.func @manyResults(%x: tensor<8xf32>, %a0: tensor<8xf32>, %a1: tensor<8xf32>, %a2: tensor<8xf32>, %a3: tensor<8xf32>, %a4: tensor<8xf32>, %a5: tensor<8xf32>, %a6: tensor<8xf32>, %a7: tensor<8xf32>, %a8: tensor<8xf32>, %a9: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = hpu.add %x, %a0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = hpu.add %0, %a1 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = hpu.add %1, %a2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %3 = hpu.add %2, %a3 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = hpu.add %3, %a4 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %5 = hpu.add %4, %a5 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %6 = hpu.add %5, %a6 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %7 = hpu.add %6, %a7 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %8 = hpu.add %7, %a8 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %9 = hpu.add %8, %a9 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// The f32 copy of a narrow tensor is made where it is read: the first unit stores %0 in bf16, and its f32 sum of squares' terms.
// CHECK-LABEL: func.func @widens(
// CHECK: %[[A:.*]]:2 = hpu.cluster {{.*}} -> (tensor<4x64xf32>, tensor<4x64xbf16>)
// CHECK: %[[M:.*]] = hpu.cluster (%{{.*}} = %[[A]]#0)
// CHECK-NEXT: hpu.reduce_mean
// CHECK: hpu.cluster (%[[X:.*]] = %[[A]]#1, %{{.*}} = %[[M]])
// CHECK-NEXT: %[[W:.*]] = hpu.cast %[[X]] {to = f32}
// CHECK-NEXT: hpu.mul %[[W]]
func.func @widens(%x: tensor<4x64xbf16>, %y: tensor<4x64xbf16>) -> (tensor<4x64xf32>, tensor<4x64xbf16>) {
  %0 = hpu.add %x, %y : (tensor<4x64xbf16>, tensor<4x64xbf16>) -> tensor<4x64xbf16>
  %1 = hpu.cast %0 {to = f32} : (tensor<4x64xbf16>) -> tensor<4x64xf32>
  %2 = hpu.mul %1, %1 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %3 = hpu.reduce_mean %2 {axes = array<i64: 1>} : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %4 = hpu.cast %0 {to = f32} : (tensor<4x64xbf16>) -> tensor<4x64xf32>
  %5 = hpu.mul %4, %3 : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  return %5, %0 : tensor<4x64xf32>, tensor<4x64xbf16>
}

// A unit also takes what its members read: the gates of one step of an LSTM are one kernel, with two results.
// CHECK-LABEL: func.func @producers(
// CHECK: hpu.cluster {{.*}} -> (tensor<2x8xf32>, tensor<2x8xf32>)
// CHECK-COUNT-3: hpu.sigmoid
// CHECK: hpu.tanh
// CHECK-NOT: hpu.cluster
// CHECK: return
func.func @producers(%i: tensor<2x8xf32>, %f: tensor<2x8xf32>, %g: tensor<2x8xf32>, %o: tensor<2x8xf32>, %c: tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>) {
  %0 = hpu.sigmoid %i : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = hpu.sigmoid %f : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %2 = hpu.tanh %g : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %3 = hpu.mul %1, %c : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %4 = hpu.mul %0, %2 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %5 = hpu.add %3, %4 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %6 = hpu.sigmoid %o : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %7 = hpu.tanh %5 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %8 = hpu.mul %6, %7 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %5, %8 : tensor<2x8xf32>, tensor<2x8xf32>
}

// A producer that something else reads behind the unit is a result of the unit, too.
// CHECK-LABEL: func.func @producerReadBehind(
// CHECK: %[[A:.*]]:2 = hpu.cluster
// CHECK: hpu.add
// CHECK: hpu.cluster (%{{.*}} = %[[A]]#
// CHECK-NEXT: hpu.reduce_sum
func.func @producerReadBehind(%x: tensor<2x8xf32>, %y: tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x1xf32>) {
  %0 = hpu.neg %x : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = hpu.relu %y : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %2 = hpu.add %0, %1 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %3 = hpu.reduce_sum %1 {axes = array<i64: 1>} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  return %2, %3 : tensor<2x8xf32>, tensor<2x1xf32>
}

// One that something reads ahead of the unit's end stays outside: its reader would wait for the unit.
// CHECK-LABEL: func.func @producerReadAhead(
// CHECK-SAME: %[[X:.*]]: tensor<2x8xf32>, %[[Y:[^:]*]]: tensor<2x8xf32>
// CHECK: %[[R:.*]] = hpu.cluster (%{{.*}} = %[[Y]])
// CHECK-NEXT: hpu.relu
// CHECK-NEXT: hpu.yield
// CHECK: hpu.cluster (%{{.*}} = %[[R]])
// CHECK-NEXT: hpu.reduce_sum
// CHECK: hpu.cluster
// CHECK-NEXT: hpu.neg
// CHECK-NEXT: hpu.add
func.func @producerReadAhead(%x: tensor<2x8xf32>, %y: tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x1xf32>) {
  %0 = hpu.neg %x : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = hpu.relu %y : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %2 = hpu.reduce_sum %1 {axes = array<i64: 1>} : (tensor<2x8xf32>) -> tensor<2x1xf32>
  %3 = hpu.add %0, %1 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %3, %2 : tensor<2x8xf32>, tensor<2x1xf32>
}
