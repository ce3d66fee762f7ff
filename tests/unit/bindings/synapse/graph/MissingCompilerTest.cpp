// SPDX-License-Identifier: Apache-2.0
// What a program sees when the compiler library is not there, or is something else, and that it may be put there
// later. Each case is a process of its own: a library that serves stays loaded.
#include "tests/unit/base/ForkOften.h"
#include "tests/unit/bindings/synapse/graph/GraphFixture.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace hpu::testing {
namespace {

synStatus makeGraph(synGraphHandle* graph) {
  synTensor tensor = nullptr;
  synSectionHandle section = nullptr;
  synTensorGeometry geometry = {};
  geometry.dims = 1;
  geometry.sizes[0] = 4;
  bool made = synGraphCreate(graph, synDeviceGaudi2) == synSuccess &&
              synTensorHandleCreate(&tensor, *graph, DATA_TENSOR, "y") == synSuccess &&
              synTensorSetGeometry(tensor, &geometry, synGeometrySizes) == synSuccess &&
              synTensorSetDeviceDataType(tensor, syn_type_float) == synSuccess &&
              synSectionCreate(&section, 0, *graph) == synSuccess &&
              synTensorAssignToSection(tensor, section, 0) == synSuccess &&
              synNodeCreate(*graph, nullptr, &tensor, 0, 1, nullptr, 0, "memset", "n", nullptr, nullptr) == synSuccess;
  return made ? synSuccess : hpuSynLastStatus();
}

/// Whether compilation and inference are refused with these words.
bool refusedWith(synGraphHandle graph, const char* words) {
  synRecipeHandle recipe = nullptr;
  bool refused = synGraphCompile(&recipe, graph, "r", nullptr) == synUnavailable &&
                 std::string(hpuSynLastError()).find(words) != std::string::npos &&
                 synGraphInferShapes(graph) == synUnavailable;
  if (!refused) std::fprintf(stderr, "last error: %s\n", hpuSynLastError());
  return refused;
}

/// Compiles a graph in a child; exits with 0 when that is refused with these words.
void expectUnavailable(const std::string& compiler, const char* words) {
  auto child = [&] {
    setenv("HPU_SYNAPSE_COMPILER", compiler.c_str(), 1);
    synGraphHandle graph = nullptr;
    bool refused = synInitialize() == synSuccess && makeGraph(&graph) == synSuccess && refusedWith(graph, words);
    std::exit(refused ? 0 : 1);
  };
  EXPECT_EXIT(child(), ::testing::ExitedWithCode(0), "");
}

TEST(SynapseMissingCompiler, IsNamed) {
  expectUnavailable("/nonexistent/libcompiler.so",
                    "cannot load the graph compiler '/nonexistent/libcompiler.so' that HPU_SYNAPSE_COMPILER names: ");
  expectUnavailable("/nonexistent/libcompiler.so", "or unset it to use ");
}

#ifdef HPU_TEST_WITHOUT_COMPILER
TEST(SynapseMissingCompiler, SaysWhereItWasLookedForAndWhatToDo) {
  expectUnavailable("", "/libhpu_synapse_compiler.so', nor 'libhpu_synapse_compiler.so' from the loader's folders");
  expectUnavailable("", "put its library beside libSynapse.so, or set HPU_SYNAPSE_COMPILER to its path");
}
#endif

TEST(SynapseMissingCompiler, AnotherLibraryIsNoCompiler) {
  expectUnavailable("libm.so.6", "'libm.so.6' is no graph compiler: it has no hpuSynapseCompileVersion");
}

TEST(SynapseMissingCompiler, AChildLooksForItToo) {
  if (!base::kMayForkWhenBusy) GTEST_SKIP() << "not under a sanitizer";
  setenv("HPU_SYNAPSE_COMPILER", "/nonexistent/libcompiler.so", 1);
  ASSERT_SYN(synInitialize());
  synGraphHandle graph = nullptr;
  ASSERT_SYN(makeGraph(&graph));
  {
    auto look = [&] { EXPECT_EQ(synGraphInferShapes(graph), synUnavailable); };
    look();
    base::BusyThreads threads({look, look, look});
    base::forkOften(200, [] {
      synGraphHandle own = nullptr;
      return makeGraph(&own) == synSuccess && refusedWith(own, "/nonexistent/libcompiler.so") ? 0 : 1;
    });
  }
  EXPECT_SYN(synDestroy());
  unsetenv("HPU_SYNAPSE_COMPILER");
}

// As a program does that installs or names the compiler after its first attempt.
TEST(SynapseMissingCompiler, IsLookedForAgain) {
  std::string served = std::getenv("HPU_TEST_COMPILER");
  std::string later = ::testing::TempDir() + "hpu_later_compiler.so";
  auto child = [&] {
    std::remove(later.c_str());
    setenv("HPU_SYNAPSE_COMPILER", later.c_str(), 1);
    synGraphHandle graph = nullptr;
    bool good =
        synInitialize() == synSuccess && makeGraph(&graph) == synSuccess && refusedWith(graph, "hpu_later_compiler.so");
    // A file that is no library, then the library.
    std::ofstream(later) << "not a library";
    good = good && refusedWith(graph, "hpu_later_compiler.so");
    std::remove(later.c_str());
    std::ofstream(later, std::ios::binary) << std::ifstream(served, std::ios::binary).rdbuf();
    synRecipeHandle recipe = nullptr;
    good = good && synGraphCompile(&recipe, graph, "r", nullptr) == synSuccess;
    if (!good) std::fprintf(stderr, "last error: %s\n", hpuSynLastError());
    std::remove(later.c_str());
    std::exit(good ? 0 : 1);
  };
  EXPECT_EXIT(child(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace hpu::testing
