// What takes the place of sizes that depend on data: bounds, masks made of the count, and indices.
// RUN: hpu-compile %s --stop-after import -o - -q | FileCheck %s
#x = #hpu.layout<symbols = ["computed size of n", ""]>
#both = #hpu.layout<symbols = ["2*'computed size of n'", ""]>
#n = #hpu.layout<symbols = ["computed size of n"]>
module {
  // CHECK: module attributes {hpu.data_sizes = [array<i64: 1, 0, 0>, array<i64: 2, 0, 1>, array<i64: 3, 0, 0>]
  // CHECK: func.func @main(%[[X:.*]]: tensor<10x4xf32> {{.*}}, %[[N:.*]]: tensor<i64> {{.*}}) -> (tensor<4xf32> {{.*}}, tensor<10x4xf32> {{.*}}, tensor<20x4xf32> {{.*}}, tensor<10xi64> {{.*}}, tensor<2xi64> {hpu.name = "data sizes"})
  func.func @main(%x: tensor<10x4xf32>, %given: tensor<i64>) -> (tensor<4xf32>, tensor<?x4xf32, #x>, tensor<?x4xf32, #both>, tensor<?xi64, #n>) {
    // CHECK: %[[COUNT:.*]] = hpu.abs %[[N]] : (tensor<i64>) -> tensor<i64>
    %count = hpu.abs %given {hpu.data_size = ["computed size of n", "10"]} : (tensor<i64>) -> tensor<i64>
    // CHECK: %[[CUT:.*]] = hpu.slice %[[X]] {{.*}} -> tensor<10x4xf32>
    %cut = hpu.slice %x {starts = array<i64: 0, 0>, sizes = array<i64: -9223372036854775808, 4>, steps = array<i64: 1, 1>, symbols = ["computed size of n", ""]} : (tensor<10x4xf32>) -> tensor<?x4xf32, #x>
    // A sum has zeros in place of what is not there.
    // CHECK: %[[POSITION:.*]] = hpu.reshape %{{.*}} {shape = array<i64: 10, 1>} : (tensor<10xi64>) -> tensor<10x1xi64>
    // CHECK: %[[MASK:.*]] = hpu.less %[[POSITION]], %[[COUNT]]
    // CHECK: %[[FILLED:.*]] = hpu.where %[[MASK]], %[[CUT]], %{{.*}} : (tensor<10x1xi1>, tensor<10x4xf32>, tensor<f32>) -> tensor<10x4xf32>
    // CHECK: hpu.reduce_sum %[[FILLED]] {{.*}} -> tensor<4xf32>
    %sum = hpu.reduce_sum %cut {axes = array<i64: 0>, keepdims = false} : (tensor<?x4xf32, #x>) -> tensor<4xf32>
    // What is elementwise stays as it is.
    // CHECK: %[[EXP:.*]] = hpu.exp %[[CUT]] : (tensor<10x4xf32>) -> tensor<10x4xf32>
    %exp = hpu.exp %cut : (tensor<?x4xf32, #x>) -> tensor<?x4xf32, #x>
    // The second part moves to behind the elements that the first one has.
    // CHECK: %[[BOTH:.*]] = hpu.concat %[[CUT]], %[[EXP]] {axis = 0 : i64} {{.*}} -> tensor<20x4xf32>
    // CHECK: hpu.gather %[[BOTH]], %{{.*}} {axis = 0 : i64} : (tensor<20x4xf32>, tensor<20xi64>) -> tensor<20x4xf32>
    %both = hpu.concat %cut, %exp {axis = 0 : i64} : (tensor<?x4xf32, #x>, tensor<?x4xf32, #x>) -> tensor<?x4xf32, #both>
    // CHECK: hpu.range {element = i64, sizes = array<i64: 10>, starts = array<i64: 0>, steps = array<i64: 3>}
    %steps = hpu.range {element = i64, starts = array<i64: 0>, sizes = array<i64: -9223372036854775808>, steps = array<i64: 3>, symbols = ["computed size of n"]} : () -> tensor<?xi64, #n>
    return %sum, %exp, %both, %steps : tensor<4xf32>, tensor<?x4xf32, #x>, tensor<?x4xf32, #both>, tensor<?xi64, #n>
  }
}
