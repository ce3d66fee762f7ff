// SPDX-License-Identifier: Apache-2.0
// The ops of the hpu dialect. Slow to compile: include it in .cpp files only.
#pragma once

#include "compiler/dialect/hpu/HpuDialect.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#define GET_OP_CLASSES
#include "compiler/dialect/hpu/HpuOps.h.inc"
