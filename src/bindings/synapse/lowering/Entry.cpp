// SPDX-License-Identifier: Apache-2.0
// The C entries of libhpu_synapse_compiler.
#include <exception>
#include <new>

#include "base/FloatEnvironment.h"
#include "base/StatusMacros.h"
#include "bindings/synapse/lowering/Compile.h"

namespace {

/// Runs `body`, which gives a Status; nothing leaves the C entry as an exception.
template <typename Body>
void guarded(hpu::Status* status, Body body) {
  // It folds constants on the program's thread.
  hpu::base::FloatScope floats;
  try {
    *status = body();
  } catch (const std::bad_alloc&) {
    *status = hpu::resourceExhausted("out of host memory while the graph is compiled");
  } catch (const std::exception& error) {
    *status = hpu::internalError(std::string("the graph's lowering failed: ") + error.what());
  }
}

}  // namespace

uint32_t hpuSynapseCompileVersion() {
  return hpu::synapse::kCompileInterfaceVersion;
}

void hpuSynapseCompile(const hpu::synapse::GraphDescription* graph, const hpu::synapse::CompileRequest* request,
                       hpu::synapse::CompiledGraph* result, hpu::Status* status) {
  guarded(status, [&]() -> hpu::Status {
    HPU_ASSIGN(*result, hpu::synapse::compileGraph(*graph, *request));
    return hpu::okStatus();
  });
}

void hpuSynapseInferShapes(hpu::synapse::GraphDescription* graph, hpu::Status* status) {
  guarded(status, [&] { return hpu::synapse::inferShapes(*graph); });
}
