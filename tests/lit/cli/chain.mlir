// Attention whose probabilities stay in SRAM: what the reports say of it, and that its numbers are right.
// RUN: hpu-compile %s --target gaudi2 -o %t.recipe --quiet --report tile,memory,schedule | FileCheck %s
// CHECK: chained qk+probabilities -> values: 2 tiles of {{.*}} in SRAM, along dim 0
// CHECK: workspace 0 bytes for 0 buffers
// CHECK: 1 results that their only reader takes from there
// The MME does a slice of the first product while the TPCs do the one before.
// CHECK: mme mme0 slice 0
// CHECK-NEXT: mme mme0 slice 1
// CHECK: mme mme{{[1-9]}} slice 0 after tpc:1

// RUN: hpu-compile %s --target gaudi2 -o %t.recipe --quiet --explain probabilities | FileCheck %s --check-prefix=EXPLAIN
// EXPLAIN: chained qk+probabilities -> values
// EXPLAIN: memory writes SRAM +
// EXPLAIN: bundle of 3 ops in {{[0-9]+}} slices

// RUN: hpu-verify %s --target gaudi2 --ref interp --quiet
// RUN: hpu-verify %s --target gaudi3 --ref interp --precision bf16 --quiet
// RUN: hpu-verify %s --target gaudi1 --ref interp --per-op --quiet

// -O1 does not chain.
// RUN: hpu-compile %s --target gaudi2 -O1 -o %t.recipe --quiet --report tile,memory | FileCheck %s --check-prefix=APART
// APART-NOT: chained
// APART: workspace {{[1-9][0-9]*}} bytes for 1 buffers
func.func @main(%q: tensor<6x1024x64xf32> {hpu.name = "q"}, %k: tensor<6x64x1024xf32> {hpu.name = "k"}, %v: tensor<6x1024x64xf32> {hpu.name = "v"}) -> (tensor<6x1024x64xf32> {hpu.name = "y"}) {
  %0 = hpu.matmul %q, %k : (tensor<6x1024x64xf32>, tensor<6x64x1024xf32>) -> tensor<6x1024x1024xf32> loc("qk")
  %1 = hpu.softmax %0 {axis = 2 : i64} : (tensor<6x1024x1024xf32>) -> tensor<6x1024x1024xf32> loc("probabilities")
  %2 = hpu.matmul %1, %v : (tensor<6x1024x1024xf32>, tensor<6x1024x64xf32>) -> tensor<6x1024x64xf32> loc("values")
  return %2 : tensor<6x1024x64xf32>
}
