// Two sizes that depend on data and would have to be equal: no launch can tell.
// RUN: not hpu-compile %s --stop-after import -o - -q 2>&1 | FileCheck %s
// CHECK: add: its sizes computed size of {{a|b}} and {{.*}} have to be equal, and one of them depends on data, so that no launch can tell
#a = #hpu.layout<symbols = ["computed size of a"]>
#b = #hpu.layout<symbols = ["computed size of b"]>
func.func @main(%x: tensor<10xf32>, %some: tensor<i64>, %other: tensor<i64>) -> tensor<?xf32, #a> {
  %na = hpu.abs %some {hpu.data_size = ["computed size of a", "10"]} : (tensor<i64>) -> tensor<i64>
  %nb = hpu.abs %other {hpu.data_size = ["computed size of b", "10"]} : (tensor<i64>) -> tensor<i64>
  %a = hpu.slice %x {starts = array<i64: 0>, sizes = array<i64: -9223372036854775808>, steps = array<i64: 1>, symbols = ["computed size of a"]} : (tensor<10xf32>) -> tensor<?xf32, #a>
  %b = hpu.slice %x {starts = array<i64: 0>, sizes = array<i64: -9223372036854775808>, steps = array<i64: 1>, symbols = ["computed size of b"]} : (tensor<10xf32>) -> tensor<?xf32, #b>
  %sum = hpu.add %a, %b : (tensor<?xf32, #a>, tensor<?xf32, #b>) -> tensor<?xf32, #a>
  return %sum : tensor<?xf32, #a>
}
