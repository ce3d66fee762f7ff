// SPDX-License-Identifier: Apache-2.0
// Gives the phases tile and schedule what they plan with: a program's descriptors as recipe structs, with the cost of
// each kernel. The one thing to know: kernels are priced from the same vector code that the phase kernels compiles.
#pragma once

#include <mutex>

#include "compiler/schedule/Schedule.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace hpu::kernels {
class KernelPricer;
}

namespace hpu::pipeline {

/// May be called by several threads (hpu-opt tiles functions side by side); they take turns.
class Drafting {
 public:
  Drafting(Target target, const arch::TargetDesc& desc);
  ~Drafting();
  StatusOr<schedule::Draft> draft(sched::ProgramOp program);
  /// The draft of a function after `layout`: each unit as a whole, each tensor at an address of its own.
  StatusOr<schedule::Draft> draft(mlir::func::FuncOp function);

 private:
  StatusOr<schedule::Draft> price(sched::ProgramOp program);

  std::mutex mutex_;
  Target target_;
  const arch::TargetDesc& desc_;
  std::unique_ptr<kernels::KernelPricer> pricer_;
};

}  // namespace hpu::pipeline
