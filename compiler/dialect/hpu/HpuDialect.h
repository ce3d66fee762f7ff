// SPDX-License-Identifier: Apache-2.0
// The hpu dialect's class, attributes, enums and op interface; include HpuOps.h for the ops.
#pragma once

#include "compiler/dialect/hpu/HpuTypes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"

namespace hpu::ir {
enum class EngineKind : uint8_t { Mme = 0, Tpc = 1, Dma = 2 };

/// What an op's numbers ask of the types around it when the f32 tensors of a model become bf16 or f16.
enum class Narrowing : uint8_t {
  Any,      ///< Reads and stores any type.
  Exact,    ///< Computes with integers: f32 always.
  Meaning,  ///< A few bits of mantissa spoil what it reads or gives (a sine of positions, a logarithm of
            ///< probabilities): f32 always.
  Power,  ///< Its result is a power of what it reads: squares of f16 leave its range beyond 256 and vanish below 2^-12,
          ///< and bf16 loses what a mean of squares is for. Stores f32.
  Sum,    ///< A sum, mean or product of many: reads any type and stores f32 (its attribute `to`).
  Range,  ///< Its result may leave f16's range where its operand has not (an exponential, a reciprocal): stores f32
          ///< when the narrow type has a small range.
  Bounded  ///< Its result has a bound of its own: narrow again, whatever it read.
};
}  // namespace hpu::ir

#include "compiler/dialect/hpu/HpuDialect.h.inc"
#include "compiler/dialect/hpu/HpuEnums.h.inc"
#include "compiler/dialect/hpu/HpuInterfaces.h.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/dialect/hpu/HpuAttrs.h.inc"
