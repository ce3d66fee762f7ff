// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/ProgramFunctions.h"

#include <utility>

#include "base/Format.h"
#include "base/ProgramCall.h"

namespace hpu::pipeline {

ProgramFunctions::ProgramFunctions(const CompileOptions& given) : given_(given), made_(given) {
  if (given.onPhase)
    made_.onPhase = [this](const PhaseInfo& info) {
      if (failed_.load(std::memory_order_relaxed)) return;
      Status status = base::callProgram(base::strCat("CompileOptions::onPhase (phase ", info.name, ")"),
                                        [&] { given_.onPhase(info); });
      if (!status.ok()) fail(std::move(status));
    };
  made_.isCancelled = [this] {
    if (failed_.load(std::memory_order_relaxed) || runs_.isToEnd()) return true;
    if (!given_.isCancelled) return outer_ && outer_->isCancelled();
    bool cancelled = true;
    Status status = base::callProgram("CompileOptions::isCancelled", [&] { cancelled = given_.isCancelled(); });
    if (!status.ok()) fail(std::move(status));
    return cancelled;
  };
}

Status ProgramFunctions::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void ProgramFunctions::fail(Status why) {
  std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = std::move(why);
  failed_.store(true, std::memory_order_relaxed);
}

}  // namespace hpu::pipeline
