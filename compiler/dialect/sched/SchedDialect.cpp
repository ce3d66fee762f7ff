// SPDX-License-Identifier: Apache-2.0
// Registration of the sched dialect.
#include "compiler/dialect/sched/SchedOps.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace hpu::sched;

#include "compiler/dialect/sched/SchedDialect.cpp.inc"
#include "compiler/dialect/sched/SchedEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/dialect/sched/SchedAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/dialect/sched/SchedOps.cpp.inc"

void SchedDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/dialect/sched/SchedAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/dialect/sched/SchedOps.cpp.inc"
      >();
}
