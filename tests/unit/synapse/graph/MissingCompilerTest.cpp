// SPDX-License-Identifier: Apache-2.0
// What a program sees when the compiler library is not there, or is something else. Each case is a process of its own:
// the library is looked for once.
#include "SynapseFixture.h"

#include <cstdlib>

namespace hpu::testing {
namespace {

/// Compiles a graph in a child; exits with 0 when that is refused with these words.
void expectUnavailable(const std::string& compiler, const char* words) {
  auto child = [&] {
    setenv("HPU_SYNAPSE_COMPILER", compiler.c_str(), 1);
    synGraphHandle graph = nullptr;
    synTensor tensor = nullptr;
    synSectionHandle section = nullptr;
    synTensorGeometry geometry = {};
    geometry.dims = 1;
    geometry.sizes[0] = 4;
    bool made = synInitialize() == synSuccess && synGraphCreate(&graph, synDeviceGaudi2) == synSuccess &&
                synTensorHandleCreate(&tensor, graph, DATA_TENSOR, "y") == synSuccess &&
                synTensorSetGeometry(tensor, &geometry, synGeometrySizes) == synSuccess &&
                synTensorSetDeviceDataType(tensor, syn_type_float) == synSuccess &&
                synSectionCreate(&section, 0, graph) == synSuccess &&
                synTensorAssignToSection(tensor, section, 0) == synSuccess &&
                synNodeCreate(graph, nullptr, &tensor, 0, 1, nullptr, 0, "memset", "n", nullptr, nullptr) == synSuccess;
    synRecipeHandle recipe = nullptr;
    bool refused = made && synGraphCompile(&recipe, graph, "r", nullptr) == synUnavailable;
    refused = refused && std::string(hpuSynLastError()).find(words) != std::string::npos;
    refused = refused && synGraphInferShapes(graph) == synUnavailable;
    if (!refused) std::fprintf(stderr, "last error: %s\n", hpuSynLastError());
    std::exit(refused ? 0 : 1);
  };
  EXPECT_EXIT(child(), ::testing::ExitedWithCode(0), "");
}

TEST(SynapseMissingCompiler, IsNamed) {
  expectUnavailable("/nonexistent/libcompiler.so", "/nonexistent/libcompiler.so");
}

TEST(SynapseMissingCompiler, AnotherLibraryIsNoCompiler) {
  expectUnavailable("libm.so.6", "'libm.so.6' is no graph compiler: it has no hpuSynapseCompileVersion");
}

}  // namespace
}  // namespace hpu::testing
