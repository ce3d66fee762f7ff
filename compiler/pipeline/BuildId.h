// SPDX-License-Identifier: Apache-2.0
// Which compiler this is, and which kernel images it makes: what a cached recipe depends on beside the model and the
// options.
#pragma once

#include <string>

namespace hpu::pipeline {

/// The version, and a hash of every source of the compiler (cmake/SourceId.cmake): the same in every program that was
/// built from them.
const std::string& buildId();

/// The option --cpu as a key: what "native" means depends on the machine.
std::string cpuText(const std::string& option);

}  // namespace hpu::pipeline
