// SPDX-License-Identifier: Apache-2.0
// Device types of SynapseAI and targets of ours.
#pragma once

#include <optional>

#include "habanalabs/synapse_api.h"
#include "hpu/target.h"

namespace hpu::synapse {

/// Nothing for a type that is not simulated.
constexpr std::optional<Target> targetOf(synDeviceType type) {
  switch (type) {
    case synDeviceGaudi:
      return Target::kGaudi1;
    case synDeviceGaudi2:
      return Target::kGaudi2;
    case synDeviceGaudi3:
      return Target::kGaudi3;
    default:
      return std::nullopt;
  }
}

constexpr synDeviceType typeOf(Target target) {
  switch (target) {
    case Target::kGaudi1:
      return synDeviceGaudi;
    case Target::kGaudi2:
      return synDeviceGaudi2;
    case Target::kGaudi3:
      return synDeviceGaudi3;
  }
  return synDeviceTypeInvalid;
}

/// As SynapseAI names them: "GAUDI2".
constexpr const char* typeName(Target target) {
  switch (target) {
    case Target::kGaudi1:
      return "GAUDI";
    case Target::kGaudi2:
      return "GAUDI2";
    case Target::kGaudi3:
      return "GAUDI3";
  }
  return "";
}

}  // namespace hpu::synapse
