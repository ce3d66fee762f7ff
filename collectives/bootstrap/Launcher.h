// SPDX-License-Identifier: Apache-2.0
// Launcher: reads LauncherEnvironment from any environment.
#pragma once

#include <string>

#include "base/FunctionRef.h"
#include "hpu/collectives.h"

namespace hpu::collectives {

/// `get` gives a variable's text or null. Errors: kInvalidArgument.
StatusOr<LauncherEnvironment> readLauncher(base::FunctionRef<const char*(const char*)> get);

/// A text that all processes of the launcher's job have and nobody else can guess; empty: there is none. Slurm, PMI,
/// PMIx and torchrun give numbers and names of jobs, which others can find out, and no secret.
std::string launcherSecret(base::FunctionRef<const char*(const char*)> get);

}  // namespace hpu::collectives
