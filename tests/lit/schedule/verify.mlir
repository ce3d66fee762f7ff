// RUN: hpu-opt %s --hpu-verify-schedule --split-input-file --verify-diagnostics
// RUN: not hpu-opt %s --hpu-schedule --split-input-file 2>&1 | FileCheck %s

// CHECK: the module has no function @main to schedule

// expected-error @+1 {{expected one sched.program @main and no function after schedule}}
module {
  func.func @other(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}

// -----

module {
  sched.program @main signals 3 {
    sched.dma @copy src <0 + 0 : f32, sizes = [4], strides = [1]> dst <1 + 0 : f32, sizes = [4], strides = [1]>
    sched.queue mme {
      // expected-error @+1 {{'copy' is no descriptor of this queue's engine}}
      sched.run @copy [0] to [4] slice 0 signal 0
    }
  }
}

// -----

module {
  sched.program @main signals 3 {
    sched.queue dma {
      // expected-error @+1 {{'gone' is no descriptor of this queue's engine}}
      sched.run @gone [0] to [4] slice 0 signal 2
    }
  }
}
