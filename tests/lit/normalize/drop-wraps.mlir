// RUN: hpu-opt %s --hpu-simplify | FileCheck %s
// Indices that are never negative need no choice of the end they count from, where sizes are known at launch.

module attributes {hpu.bounds = {n = array<i64: 1, 500>}, hpu.samples = {n = 101 : i64}} {

// The places of the largest elements, through views and a choice that keeps them.
// CHECK-LABEL: @top
// CHECK: %[[TOP:.*]] = hpu.top_indices
// CHECK-NOT: hpu.add
// CHECK: %[[KEPT:.*]] = hpu.where %arg1, %[[TOP]]
// CHECK-NOT: hpu.where
// CHECK: hpu.gather %arg0, %[[KEPT]]
func.func @top(%x: tensor<101xf32, #hpu.layout<symbols = ["n"]>>, %keep: tensor<101xi1, #hpu.layout<symbols = ["n"]>>, %size: tensor<i64>)
    -> tensor<101xf32, #hpu.layout<symbols = ["n"]>> {
  %zero = hpu.constant dense<0> : tensor<i64> : tensor<i64>
  %top = hpu.top_indices %x {axis = 0 : i64, sizes = array<i64: 101>, symbols = ["n"]}
     : (tensor<101xf32, #hpu.layout<symbols = ["n"]>>) -> tensor<101xi64, #hpu.layout<symbols = ["n"]>>
  %kept = hpu.where %keep, %top, %zero : (tensor<101xi1, #hpu.layout<symbols = ["n"]>>, tensor<101xi64, #hpu.layout<symbols = ["n"]>>, tensor<i64>)
     -> tensor<101xi64, #hpu.layout<symbols = ["n"]>>
  %negative = hpu.less %kept, %zero : (tensor<101xi64, #hpu.layout<symbols = ["n"]>>, tensor<i64>) -> tensor<101xi1, #hpu.layout<symbols = ["n"]>>
  %wrapped = hpu.add %kept, %size : (tensor<101xi64, #hpu.layout<symbols = ["n"]>>, tensor<i64>) -> tensor<101xi64, #hpu.layout<symbols = ["n"]>>
  %index = hpu.where %negative, %wrapped, %kept : (tensor<101xi1, #hpu.layout<symbols = ["n"]>>, tensor<101xi64, #hpu.layout<symbols = ["n"]>>, tensor<101xi64, #hpu.layout<symbols = ["n"]>>)
     -> tensor<101xi64, #hpu.layout<symbols = ["n"]>>
  %0 = hpu.gather %x, %index {axis = 0 : i64} : (tensor<101xf32, #hpu.layout<symbols = ["n"]>>, tensor<101xi64, #hpu.layout<symbols = ["n"]>>)
     -> tensor<101xf32, #hpu.layout<symbols = ["n"]>>
  return %0 : tensor<101xf32, #hpu.layout<symbols = ["n"]>>
}

// An operand may be any number, and so may differences be.
// CHECK-LABEL: @any
// CHECK-COUNT-2: hpu.where
func.func @any(%x: tensor<101xi64, #hpu.layout<symbols = ["n"]>>, %size: tensor<i64>)
    -> (tensor<101xi64, #hpu.layout<symbols = ["n"]>>, tensor<101xi64, #hpu.layout<symbols = ["n"]>>) {
  %zero = hpu.constant dense<0> : tensor<i64> : tensor<i64>
  %negative = hpu.less %x, %zero : (tensor<101xi64, #hpu.layout<symbols = ["n"]>>, tensor<i64>) -> tensor<101xi1, #hpu.layout<symbols = ["n"]>>
  %wrapped = hpu.add %x, %size : (tensor<101xi64, #hpu.layout<symbols = ["n"]>>, tensor<i64>) -> tensor<101xi64, #hpu.layout<symbols = ["n"]>>
  %index = hpu.where %negative, %wrapped, %x : (tensor<101xi1, #hpu.layout<symbols = ["n"]>>, tensor<101xi64, #hpu.layout<symbols = ["n"]>>, tensor<101xi64, #hpu.layout<symbols = ["n"]>>)
     -> tensor<101xi64, #hpu.layout<symbols = ["n"]>>
  %range = hpu.range {element = i64, sizes = array<i64: 101>, starts = array<i64: -1>, steps = array<i64: 1>, symbols = ["n"]} : () -> tensor<101xi64, #hpu.layout<symbols = ["n"]>>
  %below = hpu.less %range, %zero : (tensor<101xi64, #hpu.layout<symbols = ["n"]>>, tensor<i64>) -> tensor<101xi1, #hpu.layout<symbols = ["n"]>>
  %moved = hpu.add %range, %size : (tensor<101xi64, #hpu.layout<symbols = ["n"]>>, tensor<i64>) -> tensor<101xi64, #hpu.layout<symbols = ["n"]>>
  %other = hpu.where %below, %moved, %range : (tensor<101xi1, #hpu.layout<symbols = ["n"]>>, tensor<101xi64, #hpu.layout<symbols = ["n"]>>, tensor<101xi64, #hpu.layout<symbols = ["n"]>>)
     -> tensor<101xi64, #hpu.layout<symbols = ["n"]>>
  return %index, %other : tensor<101xi64, #hpu.layout<symbols = ["n"]>>, tensor<101xi64, #hpu.layout<symbols = ["n"]>>
}

// What is unsigned is never negative, but as many bits with a sign may be; more bits are not.
// CHECK-LABEL: @unsigned
// CHECK: %[[SAME:.*]] = hpu.cast %{{.*}}tensor<202xi8
// CHECK: %[[CHOSEN:.*]] = hpu.where
// CHECK: %[[WIDER:.*]] = hpu.cast %{{.*}}tensor<202xi16
// CHECK: return %[[CHOSEN]], %[[WIDER]]
func.func @unsigned(%x: tensor<101xui8, #hpu.layout<symbols = ["n"]>>)
    -> (tensor<202xi8, #hpu.layout<symbols = ["2*n"]>>, tensor<202xi16, #hpu.layout<symbols = ["2*n"]>>) {
  %zero = hpu.constant dense<0> : tensor<i8> : tensor<i8>
  %seven = hpu.constant dense<7> : tensor<i8> : tensor<i8>
  %zeros = hpu.constant dense<0> : tensor<i16> : tensor<i16>
  %sevens = hpu.constant dense<7> : tensor<i16> : tensor<i16>
  %twice = hpu.concat %x, %x {axis = 0 : i64} : (tensor<101xui8, #hpu.layout<symbols = ["n"]>>, tensor<101xui8, #hpu.layout<symbols = ["n"]>>)
     -> tensor<202xui8, #hpu.layout<symbols = ["2*n"]>>
  %same = hpu.cast %twice {to = i8} : (tensor<202xui8, #hpu.layout<symbols = ["2*n"]>>) -> tensor<202xi8, #hpu.layout<symbols = ["2*n"]>>
  %negative = hpu.less %same, %zero : (tensor<202xi8, #hpu.layout<symbols = ["2*n"]>>, tensor<i8>) -> tensor<202xi1, #hpu.layout<symbols = ["2*n"]>>
  %chosen = hpu.where %negative, %seven, %same : (tensor<202xi1, #hpu.layout<symbols = ["2*n"]>>, tensor<i8>, tensor<202xi8, #hpu.layout<symbols = ["2*n"]>>)
     -> tensor<202xi8, #hpu.layout<symbols = ["2*n"]>>
  %wider = hpu.cast %twice {to = i16} : (tensor<202xui8, #hpu.layout<symbols = ["2*n"]>>) -> tensor<202xi16, #hpu.layout<symbols = ["2*n"]>>
  %below = hpu.less %wider, %zeros : (tensor<202xi16, #hpu.layout<symbols = ["2*n"]>>, tensor<i16>) -> tensor<202xi1, #hpu.layout<symbols = ["2*n"]>>
  %kept = hpu.where %below, %sevens, %wider : (tensor<202xi1, #hpu.layout<symbols = ["2*n"]>>, tensor<i16>, tensor<202xi16, #hpu.layout<symbols = ["2*n"]>>)
     -> tensor<202xi16, #hpu.layout<symbols = ["2*n"]>>
  return %chosen, %kept : tensor<202xi8, #hpu.layout<symbols = ["2*n"]>>, tensor<202xi16, #hpu.layout<symbols = ["2*n"]>>
}

// Of fixed sizes the choice stays.
// CHECK-LABEL: @fixed
// CHECK: hpu.where
func.func @fixed(%x: tensor<7xf32>, %size: tensor<i64>) -> tensor<7xi64> {
  %zero = hpu.constant dense<0> : tensor<i64> : tensor<i64>
  %top = hpu.top_indices %x {axis = 0 : i64, sizes = array<i64: 7>} : (tensor<7xf32>) -> tensor<7xi64>
  %negative = hpu.less %top, %zero : (tensor<7xi64>, tensor<i64>) -> tensor<7xi1>
  %wrapped = hpu.add %top, %size : (tensor<7xi64>, tensor<i64>) -> tensor<7xi64>
  %index = hpu.where %negative, %wrapped, %top : (tensor<7xi1>, tensor<7xi64>, tensor<7xi64>) -> tensor<7xi64>
  return %index : tensor<7xi64>
}

}
