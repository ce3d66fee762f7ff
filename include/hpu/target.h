// SPDX-License-Identifier: Apache-2.0
// The chips that programs are compiled for and devices simulate.
#pragma once

#include <string_view>

#include "hpu/status.h"

namespace hpu {

/// Values are stored in recipes and never change.
enum class Target : uint8_t { kGaudi1 = 1, kGaudi2 = 2, kGaudi3 = 3 };

/// "gaudi1", "gaudi2", "gaudi3".
constexpr std::string_view targetName(Target target) {
  switch (target) {
    case Target::kGaudi1:
      return "gaudi1";
    case Target::kGaudi2:
      return "gaudi2";
    case Target::kGaudi3:
      return "gaudi3";
  }
  return "unknown";
}

/// Parses a target's name; the error lists the valid ones.
inline StatusOr<Target> parseTarget(std::string_view name) {
  for (Target t : {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3})
    if (name == targetName(t)) return t;
  return invalidArgument("unknown target '" + std::string(name) + "'; valid targets are gaudi1, gaudi2 and gaudi3");
}

}  // namespace hpu
