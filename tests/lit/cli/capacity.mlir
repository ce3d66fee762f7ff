// A model that its target's HBM cannot hold is refused before code is made for it, with every number and the mend.
// RUN: rm -f %t.recipe
// RUN: not hpu-compile %s --target gaudi1 -o %t.recipe --quiet 2>&1 | FileCheck %s
// RUN: not ls %t.recipe
// CHECK: error: the model needs 40 GiB of HBM and gaudi1 has 32 GiB: weights 0 B, workspace 0 B, inputs 20 GiB, outputs 20 GiB; {{.*}}batch{{.*}}--target

// RUN: hpu-compile %s --target gaudi2 -o %t.recipe --quiet
func.func @main(%x: tensor<5x1024x1024x1024xf32> {hpu.name = "x"}) -> (tensor<5x1024x1024x1024xf32> {hpu.name = "y"}) {
  %0 = hpu.relu %x : (tensor<5x1024x1024x1024xf32>) -> tensor<5x1024x1024x1024xf32> loc("relu")
  return %0 : tensor<5x1024x1024x1024xf32>
}
