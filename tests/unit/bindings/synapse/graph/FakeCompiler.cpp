// SPDX-License-Identifier: Apache-2.0
// A compiler library for tests of libSynapse.so that need no LLVM: it knows memcpy, memset and identity, which become
// copies and fills on the DMA. An identity with a host-to-device tensor as second input fills its output with that
// tensor's first 32 bits. Everything else is "not supported by the tests' compiler".
#include <atomic>
#include <map>
#include <string>

#include "base/Format.h"
#include "bindings/synapse/graph/DataTypes.h"
#include "bindings/synapse/lowering/Compile.h"
#include "recipe/Recipe.h"
#include "recipe/RecipeWriter.h"

namespace hpu::synapse {
namespace {

using base::strCat;
using recipe::Operand;
using recipe::SectionKind;

class FakeCompilation {
 public:
  FakeCompilation(const GraphDescription& graph, const CompileRequest& request) : graph_(graph), request_(request) {}

  StatusOr<CompiledGraph> run() {
    for (size_t i = 0; i < graph_.tensors.size(); ++i) {
      bool given = i < request_.actualSizes.size() && !request_.actualSizes[i].empty();
      result_.sizes.push_back(given ? request_.actualSizes[i] : std::vector<uint64_t>());
    }
    for (const NodeDescription& node : graph_.nodes) {
      Status status = infer(node);
      if (!status.ok()) return status;
    }
    program_.name = graph_.name;
    program_.producer = "tests";
    program_.target = graph_.target;
    program_.queues.emplace_back().engine = Engine::kDma;
    program_.numSignals = 1;
    for (const NodeDescription& node : graph_.nodes) add(node);
    auto bytes = recipe::writeRecipe(program_);
    if (!bytes.ok()) return bytes.status();
    result_.recipe = std::move(*bytes);
    static std::atomic<int> compilations{0};
    result_.log = strCat("compilation ", ++compilations, " of the tests' compiler\n");
    return std::move(result_);
  }

 private:
  const TensorDescription& tensor(int32_t index) const { return graph_.tensors[static_cast<size_t>(index)]; }

  Status infer(const NodeDescription& node) {
    bool copies = node.guid == "memcpy" || node.guid == "identity";
    if (!copies && node.guid != "memset")
      return unimplemented(strCat("node '", node.name, "' (", node.guid, "): not supported by the tests' compiler"));
    auto& output = result_.sizes[static_cast<size_t>(node.outputs[0])];
    if (copies) {
      auto& input = result_.sizes[static_cast<size_t>(node.inputs[0])];
      if (input.empty()) input = tensor(node.inputs[0]).maxSizes;
      if (!output.empty() && output != input)
        return invalidArgument(strCat("node '", node.name, "': its output is of another size than its input"));
      output = input;
    } else if (output.empty()) {
      output = tensor(node.outputs[0]).maxSizes;
    }
    return okStatus();
  }

  bool persistent(int32_t index) const {
    uint32_t section = tensor(index).section;
    return section != kNoSection && graph_.sections[section].persistent;
  }

  Operand operand(int32_t index, bool isOutput) {
    const TensorDescription& from = tensor(index);
    Operand operand;
    operand.type = deviceElementType(from.dataType, graph_.target);
    int64_t count = 1;
    for (uint64_t size : result_.sizes[static_cast<size_t>(index)]) count *= static_cast<int64_t>(size);
    operand.sizes = {count};
    operand.strides = {1};
    operand.section = section(index, isOutput, count * elementSize(operand.type), operand.type, count);
    return operand;
  }

  /// Of a tensor that was used before, the section that it has.
  uint32_t section(int32_t index, bool isOutput, int64_t bytes, ElementType type, int64_t count) {
    auto known = sections_.find(index);
    if (known != sections_.end()) return known->second;
    auto id = static_cast<uint32_t>(program_.sections.size());
    sections_[index] = id;
    recipe::Section& section = program_.sections.emplace_back();
    section.bytes = static_cast<uint64_t>(bytes);
    const TensorDescription& from = tensor(index);
    if (persistent(index)) {
      auto& tensors = isOutput ? program_.outputs : program_.inputs;
      section.kind = isOutput ? SectionKind::kOutput : SectionKind::kInput;
      section.binding = static_cast<uint32_t>(tensors.size());
      tensors.push_back({from.name, {type, {count}}});
      (isOutput ? result_.outputs : result_.inputs).push_back(index);
      return id;
    }
    section.bytes = (section.bytes + 255) / 256 * 256;
    section.kind = from.hostData ? SectionKind::kConst : SectionKind::kWorkspace;
    if (from.hostData) {
      recipe::ConstantBlob& blob = program_.constants.emplace_back();
      blob.section = id;
      blob.data = reinterpret_cast<const uint8_t*>(from.hostData->data());
      blob.bytes = from.hostData->size();
      blob.owner = from.hostData;
    }
    return id;
  }

  void add(const NodeDescription& node) {
    recipe::DmaDesc dma;
    bool fillsByValue = node.guid == "identity" && node.inputs.size() == 2;
    if (node.guid == "memset" || fillsByValue) {
      dma.fill = true;
      if (fillsByValue && tensor(node.inputs[1]).hostData)
        for (size_t i = 0; i < 4; ++i)
          dma.fillPattern |= static_cast<uint64_t>((*tensor(node.inputs[1]).hostData)[i]) << (8 * i);
    }
    if (node.guid != "memset") dma.src = operand(node.inputs[0], false);
    if (fillsByValue) dma.src = Operand();
    dma.dst = operand(node.outputs[0], true);

    auto index = static_cast<uint32_t>(program_.ops.size());
    recipe::Op& op = program_.ops.emplace_back();
    op.engine = Engine::kDma;
    op.name = node.name;
    op.provenance = {static_cast<uint32_t>(program_.sourceNodes.size())};
    program_.sourceNodes.push_back({node.name, node.guid});
    op.space = dma.dst.sizes;
    op.dma = std::move(dma);
    program_.hostOrder.push_back(index);
    program_.bundles.push_back({node.name, {index}, 1});
    recipe::Command& command = program_.queues[0].commands.emplace_back();
    command.op = command.bundle = index;
    command.lo = {0};
    command.hi = op.space;
    command.signal = 0;
  }

  const GraphDescription& graph_;
  const CompileRequest& request_;
  CompiledGraph result_;
  recipe::Program program_;
  std::map<int32_t, uint32_t> sections_;
};

}  // namespace
}  // namespace hpu::synapse

using namespace hpu::synapse;

uint32_t hpuSynapseCompileVersion() {
  return kCompileInterfaceVersion;
}

void hpuSynapseCompile(const GraphDescription* graph, const CompileRequest* request, CompiledGraph* result,
                       hpu::Status* status) {
  if (request->freeSizes == CompileRequest::FreeSizes::kAll) {
    *status = hpu::unimplemented("the tests' compiler has no program for all sizes");
    return;
  }
  auto compiled = FakeCompilation(*graph, *request).run();
  *status = compiled.status();
  if (compiled.ok()) *result = std::move(*compiled);
}

void hpuSynapseInferShapes(GraphDescription* graph, hpu::Status* status) {
  for (NodeDescription& node : graph->nodes) {
    if (node.guid != "memcpy" && node.guid != "identity") continue;
    const TensorDescription& input = graph->tensors[static_cast<size_t>(node.inputs[0])];
    TensorDescription& output = graph->tensors[static_cast<size_t>(node.outputs[0])];
    if (output.maxSizes.empty()) {
      output.maxSizes = input.maxSizes;
      output.minSizes = input.minSizes;
    }
    if (output.maxSizes != input.maxSizes) {
      *status = hpu::invalidArgument("node '" + node.name + "': its output is of another size than its input");
      return;
    }
    if (!output.dataType) output.dataType = input.dataType;
  }
}
