// SPDX-License-Identifier: Apache-2.0
// The entry of libhpu_synapse_compiler: a GraphDescription in, a recipe out.
// The one thing to know: libSynapse.so loads that library at the first compilation and finds
// hpuSynapseCompile by name, so a client that never compiles needs no LLVM; both come from one build, and
// the version number is checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/synapse/graph/GraphDescription.h"
#include "hpu/status.h"

namespace hpu::synapse {

inline constexpr uint32_t kCompileInterfaceVersion = 3;

struct CompileRequest {
  int optLevel = 2;
  std::string cacheDir;  ///< As CompileOptions::cacheDir.
  /// Actual sizes by tensor index, for a graph with free sizes; empty: the maxima.
  std::vector<std::vector<uint64_t>> actualSizes;
  /// One program for all sizes, where the graph has one.
  enum class FreeSizes : uint8_t {
    kNone,
    kBounded,  ///< Those with minSizes below maxSizes. Without such a program: one of the largest sizes.
    kAll,      ///< Every size but 0 and 1 of what no node produces. Without: kUnimplemented.
  };
  FreeSizes freeSizes = FreeSizes::kNone;
  /// Kernels for this CPU alone, in half of the time; a file needs them for every CPU. Of eager graphs they always are.
  bool thisCpuOnly = false;
};

/// A graph ready to be loaded.
struct CompiledGraph {
  std::vector<uint8_t> recipe;  ///< As Recipe::serialize.
  /// For each input and output of the recipe, in order, the index of its tensor. A persistent tensor that is
  /// read and written, or two tensors at one place of a section, appear on both sides.
  std::vector<int32_t> inputs, outputs;
  /// Every tensor's sizes as inferred, by tensor index (persistent or not).
  std::vector<std::vector<uint64_t>> sizes;
  /// Of a program for all sizes: by tensor index, for tensors that no node produces, the name of the recipe's free
  /// dimension that each size is ("": fixed); an empty list where all are fixed. Empty: a program of fixed sizes.
  std::vector<std::vector<std::string>> freeDims;
  std::string log;  ///< Warnings and what became of nodes, a line each.
};

/// Infers the sizes and element types of tensors that have none. Errors: as compileGraph.
Status inferShapes(GraphDescription& graph);

/// Any thread may call. Errors: kInvalidArgument, kUnimplemented, kResourceExhausted; every faulty node is named with
/// its GUID and what is wrong, a line each.
StatusOr<CompiledGraph> compileGraph(const GraphDescription& graph, const CompileRequest& request);

}  // namespace hpu::synapse

extern "C" {
/// What libSynapse looks up. They never throw; the status of the two functions above goes to *status.
HPU_API uint32_t hpuSynapseCompileVersion();
HPU_API void hpuSynapseCompile(const hpu::synapse::GraphDescription* graph, const hpu::synapse::CompileRequest* request,
                               hpu::synapse::CompiledGraph* result, hpu::Status* status);
HPU_API void hpuSynapseInferShapes(hpu::synapse::GraphDescription* graph, hpu::Status* status);
}
