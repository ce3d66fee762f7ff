// SPDX-License-Identifier: Apache-2.0
// The compiler library as it is shipped, with the number of compilations of the process so far at the end of each
// program's log: "compilation 3". What shapes are inferred does not count.
#include <dlfcn.h>

#include <atomic>

#include "base/Format.h"
#include "bindings/synapse/lowering/Compile.h"

using namespace hpu::synapse;

namespace {

template <typename Function>
Function* find(const char* name) {
  static void* library = dlopen(HPU_SYNAPSE_COMPILER, RTLD_NOW | RTLD_LOCAL);
  return library ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
}

}  // namespace

uint32_t hpuSynapseCompileVersion() {
  auto* version = find<decltype(hpuSynapseCompileVersion)>("hpuSynapseCompileVersion");
  return version ? version() : 0;
}

void hpuSynapseCompile(const GraphDescription* graph, const CompileRequest* request, CompiledGraph* result,
                       hpu::Status* status) {
  find<decltype(hpuSynapseCompile)>("hpuSynapseCompile")(graph, request, result, status);
  static std::atomic<int> compilations{0};
  result->log += hpu::base::strCat("compilation ", ++compilations, "\n");
}

void hpuSynapseInferShapes(GraphDescription* graph, hpu::Status* status) {
  find<decltype(hpuSynapseInferShapes)>("hpuSynapseInferShapes")(graph, status);
}
