// SPDX-License-Identifier: Apache-2.0
// The sched dialect: attributes and ops. Include it in .cpp files only.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "compiler/dialect/sched/SchedDialect.h.inc"
#include "compiler/dialect/sched/SchedEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/dialect/sched/SchedAttrs.h.inc"
#define GET_OP_CLASSES
#include "compiler/dialect/sched/SchedOps.h.inc"
