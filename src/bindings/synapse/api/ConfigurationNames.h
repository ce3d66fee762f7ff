// SPDX-License-Identifier: Apache-2.0
// Names of SynapseAI's own configuration that programs set. They steer passes of its compiler and parts of its runtime
// that OpenHPU does not have, so a value is kept and given back, and changes nothing. Those that do change something
// are settings (base/Settings.def).
#pragma once

#include <string_view>

namespace hpu::synapse {

/// Whether it is one of them. Other names may be set, too.
bool isConfigurationOfSynapse(std::string_view name);

}  // namespace hpu::synapse
