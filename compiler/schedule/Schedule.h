// SPDX-License-Identifier: Apache-2.0
// The phase schedule: turns units with addresses into engine queues with signals and waits.
#pragma once

#include <memory>
#include <string>

#include "arch/TargetDesc.h"

namespace mlir {
class Pass;
}

namespace hpu::schedule {

struct ScheduleOptions {
  const arch::TargetDesc* target = nullptr;
  std::string* report = nullptr;
  std::string* summary = nullptr;
};

/// Module pass: the function @main is replaced by a sched.program @main, since a program is module-level.
std::unique_ptr<mlir::Pass> createSchedulePass(ScheduleOptions options);
/// Post-condition: no function is left, symbols resolve, each queue runs descriptors of its engine.
std::unique_ptr<mlir::Pass> createVerifySchedulePass();

}  // namespace hpu::schedule
