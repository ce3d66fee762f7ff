// RUN: hpu-opt %s --split-input-file --verify-diagnostics

func.func @noMme(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{must hold 1 MME ops, has 0}}
  %0 = hpu.bundle (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    %1 = hpu.relu %a : (tensor<4xf32>) -> tensor<4xf32>
    hpu.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @mmeInCluster(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{must hold 0 MME ops, has 1}}
  %0 = hpu.cluster (%a = %x) : (tensor<4x4xf32>) -> tensor<4x4xf32> {
    %1 = hpu.matmul %a, %a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    hpu.yield %1 : tensor<4x4xf32>
  }
  return %0 : tensor<4x4xf32>
}

// -----

func.func @yieldsAnotherType(%x: tensor<4xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{must yield its results' types}}
  %0 = hpu.cluster (%a = %x) : (tensor<4xf32>) -> tensor<2xf32> {
    %1 = hpu.relu %a : (tensor<4xf32>) -> tensor<4xf32>
    hpu.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<2xf32>
}

// -----

func.func @foreignOp(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = hpu.cluster (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{cannot be inside a unit}}
    %1 = arith.addf %a, %a : tensor<4xf32>
    hpu.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @nested(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = hpu.cluster (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{cannot be inside a unit}}
    %1 = hpu.cluster (%b = %a) : (tensor<4xf32>) -> tensor<4xf32> {
      %2 = hpu.relu %b : (tensor<4xf32>) -> tensor<4xf32>
      hpu.yield %2 : tensor<4xf32>
    }
    hpu.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @usesAValueFromOutside(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-note @+1 {{required by region isolation constraints}}
  %0 = hpu.cluster () : () -> tensor<4xf32> {
    // expected-error @+1 {{using value defined outside the region}}
    %1 = hpu.relu %x : (tensor<4xf32>) -> tensor<4xf32>
    hpu.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
