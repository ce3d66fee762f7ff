// SPDX-License-Identifier: Apache-2.0
// The hpu dialect's class, attributes, enums and op interface; include HpuOps.h for the ops.
#pragma once

#include "compiler/dialect/hpu/HpuTypes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"

namespace hpu::ir {
enum class EngineKind : uint8_t { Mme = 0, Tpc = 1, Dma = 2 };
}  // namespace hpu::ir

#include "compiler/dialect/hpu/HpuDialect.h.inc"
#include "compiler/dialect/hpu/HpuEnums.h.inc"
#include "compiler/dialect/hpu/HpuInterfaces.h.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/dialect/hpu/HpuAttrs.h.inc"
