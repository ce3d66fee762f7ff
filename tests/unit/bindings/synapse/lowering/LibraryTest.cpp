// SPDX-License-Identifier: Apache-2.0
// libhpu_synapse_compiler.so as libSynapse uses it: loaded by name, three functions.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "bindings/synapse/lowering/Compile.h"

namespace hpu::synapse {
namespace {

struct Library {
  void* handle = dlopen(HPU_SYNAPSE_COMPILER, RTLD_NOW | RTLD_LOCAL);
  template <typename F>
  F* find(const char* name) const {
    return reinterpret_cast<F*>(dlsym(handle, name));
  }
};

/// y = x * x, y's sizes unknown.
GraphDescription square(uint64_t columns) {
  GraphDescription graph;
  graph.name = "square";
  for (uint32_t i = 0; i < 2; ++i) {
    TensorDescription t;
    t.id = i + 1;
    t.name = i ? "y" : "x";
    t.dataType = 4;
    t.section = i;
    if (i == 0) t.maxSizes = t.minSizes = {columns, 4};
    graph.tensors.push_back(t);
    graph.sections.push_back({i, 0, true, false, false});
  }
  NodeDescription node;
  node.id = 1;
  node.name = "product";
  node.guid = "gemm";
  node.inputs = {0, 0};
  node.outputs = {1};
  graph.nodes.push_back(node);
  return graph;
}

TEST(Library, CompilesAndSaysWhatIsWrong) {
  Library library;
  ASSERT_TRUE(library.handle) << dlerror();
  auto* version = library.find<decltype(hpuSynapseCompileVersion)>("hpuSynapseCompileVersion");
  auto* compile = library.find<decltype(hpuSynapseCompile)>("hpuSynapseCompile");
  auto* infer = library.find<decltype(hpuSynapseInferShapes)>("hpuSynapseInferShapes");
  ASSERT_TRUE(version && compile && infer);
  EXPECT_EQ(version(), kCompileInterfaceVersion);

  GraphDescription graph = square(4);
  CompiledGraph result;
  CompileRequest request;
  Status status;
  compile(&graph, &request, &result, &status);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_FALSE(result.recipe.empty());
  EXPECT_EQ(result.sizes[1], (std::vector<uint64_t>{4, 4}));
  infer(&graph, &status);
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(graph.tensors[1].maxSizes, (std::vector<uint64_t>{4, 4}));

  graph = square(5);
  compile(&graph, &request, &result, &status);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("node 'product' (gemm): the common sizes differ"), std::string::npos)
      << status.message();
}

TEST(Library, ExportsNothingElse) {
  Library library;
  ASSERT_TRUE(library.handle) << dlerror();
  EXPECT_EQ(dlsym(library.handle, "_ZN3hpu7synapse12compileGraphERKNS0_16GraphDescriptionERKNS0_14CompileRequestE"),
            nullptr);
}

}  // namespace
}  // namespace hpu::synapse
