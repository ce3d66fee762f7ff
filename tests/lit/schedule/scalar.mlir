// An output that is next to nothing: a constant scalar.
// RUN: hpu-opt %s --hpu-fuse --hpu-layout --hpu-tile --hpu-memory --hpu-schedule --hpu-verify-schedule | FileCheck %s

// A scalar is copied as a tensor without dimensions.
// CHECK: sched.dma @[[COPY:.*]] src <{{[0-9]+}} + 0 : f32> dst <{{[0-9]+}} + 0 : f32>
// CHECK: sched.run @[[COPY]] [] to [] slice 0 signal 2
func.func @main(%x: tensor<2xf32>) -> tensor<f32> {
  %0 = hpu.constant dense<2.5> : tensor<f32> : tensor<f32>
  return %0 : tensor<f32>
}
