// SPDX-License-Identifier: Apache-2.0
// TargetScope: the target of the graphs that a thread makes, for the few rows that depend on it.
#pragma once

#include "hpu/target.h"

namespace hpu_torch {

class TargetScope {
 public:
  explicit TargetScope(hpu::Target target);
  ~TargetScope();
  TargetScope(const TargetScope&) = delete;
  TargetScope& operator=(const TargetScope&) = delete;
  /// The innermost one's; Gaudi 2 without one (where only sizes are asked for).
  static hpu::Target current();

 private:
  hpu::Target before_;
};

}  // namespace hpu_torch
