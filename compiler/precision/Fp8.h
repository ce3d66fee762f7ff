// SPDX-License-Identifier: Apache-2.0
// What fp8 means for a program: which matrix products take 8-bit operands, and with what scales.
// The one thing to know: a code stands for its value times the scale of its tensor; scales of weights and
// of calibrated activations are powers of two (on E4M3 those of the target's exponent bias), so that
// applying them rounds nothing.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "arch/TargetDesc.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "hpu/types.h"

namespace hpu::precision {

struct Fp8Format {
  ElementType element = ElementType::kInvalid;
  double largest = 0;
  std::vector<double> scales;  ///< Ascending.
};
/// The target's E4M3 with its scales, or E5M2 with every power of two from 2^-56 to 2^7.
Fp8Format fp8FormatOf(Precision precision, const arch::TargetDesc& target);

/// The smallest scale with which `largestMagnitude` fits; the largest scale when none does (what is beyond
/// saturates), 1 for a tensor of zeros.
double chooseScale(const Fp8Format& format, double largestMagnitude);

/// Calibrated activations may exceed what was measured by this factor before they saturate.
inline constexpr double kActivationHeadroom = 2;

/// A product of an attention: its result goes into a softmax through scales and masks, or one of its operands
/// is a softmax. These stay in bf16.
bool isAttentionProduct(mlir::Operation* op);

/// The MME ops of a function in order, each with the name that its calibration data has: the node's name,
/// "#2" behind the second one of a name.
std::vector<std::pair<mlir::Operation*, std::string>> namedProducts(mlir::Block& block);
/// The name of the range of operand `index`: "conv1:0".
std::string rangeName(const std::string& product, int index);

/// max|value| as an f32 tensor of rank 0, computed at run time: rows first, by all TPCs, then what is left of them.
mlir::Value largestAtRunTime(mlir::OpBuilder& builder, mlir::Location loc, mlir::Value value);

/// A constant, or views of one.
bool isConstantLike(mlir::Value value);
/// The value without the views above it.
mlir::Value rootOf(mlir::Value value);

}  // namespace hpu::precision
