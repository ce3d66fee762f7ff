// SPDX-License-Identifier: Apache-2.0
#include "runtime/executable/LaunchBindings.h"

#include <algorithm>
#include <string_view>

#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu {
namespace {

struct Interval {
  uint64_t begin = 0, end = 0;
  size_t index = 0;
};

uint64_t endOf(const BoundMemory& memory) {
  return memory.address + static_cast<uint64_t>(memory.bytes);
}

std::vector<Interval> sorted(const std::vector<BoundMemory>& memories) {
  std::vector<Interval> result;
  result.reserve(memories.size());
  for (size_t i = 0; i < memories.size(); ++i)
    if (memories[i].bytes > 0) result.push_back({memories[i].address, endOf(memories[i]), i});
  std::sort(result.begin(), result.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  return result;
}

Status checkWorkspace(const std::vector<BoundMemory>& memories, const BoundMemory& workspace, std::string_view what) {
  if (workspace.bytes == 0) return okStatus();
  for (size_t i = 0; i < memories.size(); ++i)
    if (memories[i].bytes > 0 && memories[i].address < endOf(workspace) && workspace.address < endOf(memories[i]))
      return invalidArgument(base::strCat(what, " ", i, " lies in the workspace; give each its own memory"));
  return okStatus();
}

}  // namespace

StatusOr<std::vector<size_t>> outputsOverInputs(const LaunchBindings& bindings) {
  HPU_RETURN_IF_ERROR(checkWorkspace(bindings.inputs, bindings.workspace, "input"));
  HPU_RETURN_IF_ERROR(checkWorkspace(bindings.outputs, bindings.workspace, "output"));
  std::vector<Interval> outputs = sorted(bindings.outputs);
  for (size_t i = 1; i < outputs.size(); ++i)
    if (outputs[i - 1].end > outputs[i].begin) {
      auto [first, second] = std::minmax(outputs[i - 1].index, outputs[i].index);
      return invalidArgument(
          base::strCat("outputs ", first, " and ", second, " use the same memory; give each its own buffer"));
    }
  // Inputs may overlap each other: what counts is how far any that begins earlier reaches.
  std::vector<Interval> inputs = sorted(bindings.inputs);
  std::vector<size_t> result;
  size_t next = 0;
  uint64_t reach = 0;
  for (const Interval& output : outputs) {
    for (; next < inputs.size() && inputs[next].begin < output.end; ++next) reach = std::max(reach, inputs[next].end);
    if (reach > output.begin) result.push_back(output.index);
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace hpu
