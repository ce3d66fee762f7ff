// SPDX-License-Identifier: Apache-2.0
// Launcher: reads LauncherEnvironment from any environment.
#pragma once

#include "base/FunctionRef.h"
#include "hpu/collectives.h"

namespace hpu::collectives {

/// `get` gives a variable's text or null. Errors: kInvalidArgument.
StatusOr<LauncherEnvironment> readLauncher(base::FunctionRef<const char*(const char*)> get);

}  // namespace hpu::collectives
