// SPDX-License-Identifier: Apache-2.0
#include "pytorch/record/Programs.h"

#include <chrono>
#include <mutex>

#include "hpu/eager.h"
#include "pytorch/device/Runtime.h"
#include "pytorch/record/CompileLog.h"
#include "pytorch/record/Sizes.h"
#include "pytorch/record/TargetScope.h"

namespace hpu_torch {
namespace {

constexpr size_t kMostPrograms = 8192;
/// Percent of the usual search for slices, as the program waits for it. For free sizes slices are searched for several
/// times over.
constexpr int kEffort = 25, kFreeEffort = 10;

struct Programs {
  std::mutex mutex;
  WordMap<const Program> map{kMostPrograms};
  hpu::EagerCache recipes;
};
Programs& programs() {
  static Programs& instance = *new Programs;
  return instance;
}

}  // namespace

RunCounters& runCounters() {
  static RunCounters& counters = *new RunCounters;
  return counters;
}

hpu::StatusOr<hpu::Recipe> compileFor(const hpu::Device& device, const hpu::Graph& graph, hpu::CompileOptions options,
                                      const std::vector<Node>& nodes, const std::string& why) {
  const auto start = std::chrono::steady_clock::now();
  options.target = device.info().target;
  options.cpu = "native";
  options.searchEffort = options.dimBounds.empty() ? kEffort : kFreeEffort;
  hpu::StatusOr<hpu::CompileResult> result = hpu::compile(graph, options);
  const int64_t ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
  ++runCounters().compiles;
  runCounters().compileNs += ns;
  logCompile(nodes, why, !options.dimBounds.empty(), ns);
  if (!result.ok()) return result.status();
  return result->recipe;
}

std::string describe(const std::vector<Node>& nodes) {
  const std::string first = nodes[0].signature->text();
  return nodes.size() == 1 ? first : "a graph of " + std::to_string(nodes.size()) + " ops from " + first;
}

std::shared_ptr<const Program> findProgram(Words key) {
  std::lock_guard<std::mutex> lock(programs().mutex);
  return programs().map.find(key);
}

std::shared_ptr<const Program> makeProgram(const hpu::Device& device, Words key, const std::vector<Node>& nodes,
                                           const std::vector<Storage>& storages) {
  const TargetScope target(device.info().target);
  hpu::StatusOr<Translated> translated = translate(nodes, storages);
  if (!translated.ok()) raise(translated.status(), "translating " + describe(nodes));
  auto program = std::make_shared<Program>();
  program->inputs = translated->inputs;
  program->outputs = translated->outputs;
  for (size_t i = 0; i < program->inputs.size(); ++i)
    if (program->inputs[i].number >= 0) program->numbers.push_back(i);
  // Where what is written is seen by nobody there is nothing to do.
  if (!program->outputs.empty()) {
    SizedExecutable shared;
    std::string why;
    if (shareSizes(device, nodes, storages, *translated, shared, why)) {
      program->executable = std::move(shared.executable);
      program->inputShapes = std::move(shared.inputShapes);
    } else {
      const hpu::EagerKey name = hpu::EagerKey::Builder().add(key.data, key.count * sizeof(int64_t)).build();
      hpu::StatusOr<hpu::Executable> executable = programs().recipes.executable(
          device, name, [&] { return compileFor(device, translated->graph, {}, nodes, why); });
      if (!executable.ok()) raise(executable.status(), "compiling " + describe(nodes));
      program->executable = *executable;
    }
  }
  std::lock_guard<std::mutex> lock(programs().mutex);
  return programs().map.insert(key, std::move(program));
}

}  // namespace hpu_torch
