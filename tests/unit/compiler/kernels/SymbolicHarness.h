// SPDX-License-Identifier: Apache-2.0
// Kernels of free sizes: compiled once, run at many sizes, and compared with kernels that are compiled for those sizes.
// The one thing to know: sizes are written between backquotes ("tensor<`2*S + 1`x64xf32>"), as DimExpr reads them; a
// number of a type or attribute that is what such an expression is at the representatives is taken for it, so choose
// representatives that the text has no other use for.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "KernelHarness.h"
#include "shape/DimExpr.h"

namespace hpu::kernels::test {

/// An operand: its sizes as expressions; it lies densely in `order`, as Tensor::dense has it.
struct SymTensor {
  ElementType type = ElementType::kF32;
  std::vector<std::string> sizes;
  Index order;
  int64_t gap = 0;
  double low = -2, high = 2;  ///< Of the numbers that it is filled with.

  Tensor at(const shape::SymbolBindings& sizesOf) const;
  OperandView view(const shape::SymbolBindings& representatives) const;
};

struct SymCase {
  std::string body;  ///< As Kernel's; "$0" and "$out0" too.
  std::vector<SymTensor> inputs, outputs;
  shape::SymbolBindings representatives;
  std::vector<shape::SymbolBindings> sizes;  ///< To run at; the representatives are among them by themselves.
  shape::SymbolBounds bounds = {};
  /// Of the results of both kernels; 0: the same bits. (Lanes may add up in another order.)
  double tolerance = 0;
  double costTolerance = 0.02;  ///< At the representatives, of every kind of issue slot.
};

/// The body's text at some sizes.
std::string bodyAt(const SymCase& test, const shape::SymbolBindings& sizes);
/// The operands at some sizes.
std::vector<Tensor> operandsAt(const std::vector<SymTensor>& operands, const shape::SymbolBindings& sizes);
/// Puts the expressions into a request for the kernel at the representatives.
std::function<void(KernelRequest&)> expressionsOf(const SymCase& test);
/// Compiles the kernel of free sizes.
Kernel symbolicKernel(const SymCase& test);
/// Runs on all variants, whole and in slices, at all sizes; each result is compared with the static kernel's. Costs of
/// both are compared at the representatives.
void checkSymbolic(const SymCase& test);

/// For one free dimension "S": edges of lane counts, none, one, and many.
std::vector<shape::SymbolBindings> manySizes(int64_t large = 300);

}  // namespace hpu::kernels::test
