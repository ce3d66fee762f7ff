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

/// What injectCompileFaults() asks for.
class CompileFaults {
 public:
  void set(int64_t mostNodes, const std::string& op) {
    std::lock_guard<std::mutex> lock(mutex_);
    mostNodes_ = mostNodes;
    op_ = op;
    isActive_ = mostNodes > 0 || !op.empty();
  }
  hpu::Status of(const std::vector<Node>& nodes) {
    if (!isActive_) return hpu::okStatus();
    std::lock_guard<std::mutex> lock(mutex_);
    if (mostNodes_ > 0 && static_cast<int64_t>(nodes.size()) > mostNodes_)
      return hpu::internalError("injected: a graph of " + std::to_string(nodes.size()) + " ops");
    for (const Node& node : nodes)
      if (!op_.empty() && node.signature->name.find(op_) != std::string::npos)
        return hpu::internalError("injected: it has " + node.signature->name);
    return hpu::okStatus();
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> isActive_{false};
  int64_t mostNodes_ = 0;
  std::string op_;
};

struct Programs {
  std::mutex mutex;
  WordMap<const Program> map{kMostPrograms};
  WordMap<const hpu::Status> refused{kMostPrograms};
  CompileFaults faults;
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

hpu::StatusOr<std::shared_ptr<const Program>> tryProgram(const hpu::Device& device, Words key,
                                                         const std::vector<Node>& nodes,
                                                         const std::vector<Storage>& storages) {
  {
    std::lock_guard<std::mutex> lock(programs().mutex);
    if (std::shared_ptr<const hpu::Status> refused = programs().refused.find(key)) return *refused;
  }
  auto refuse = [&](const hpu::Status& status) {
    std::lock_guard<std::mutex> lock(programs().mutex);
    return *programs().refused.insert(key, std::make_shared<const hpu::Status>(status));
  };
  if (hpu::Status fault = programs().faults.of(nodes); !fault.ok()) return refuse(fault);
  const TargetScope target(device.info().target);
  hpu::StatusOr<Translated> translated = translate(nodes, storages);
  if (!translated.ok()) return refuse(translated.status());
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
      bool isCompiled = true;
      hpu::StatusOr<hpu::Executable> executable = programs().recipes.executable(device, name, [&] {
        hpu::StatusOr<hpu::Recipe> recipe = compileFor(device, translated->graph, {}, nodes, why);
        isCompiled = recipe.ok();
        return recipe;
      });
      // What cannot be loaded now, for want of memory, may be another time.
      if (!executable.ok()) return isCompiled ? executable.status() : refuse(executable.status());
      program->executable = *executable;
    }
  }
  std::lock_guard<std::mutex> lock(programs().mutex);
  return std::shared_ptr<const Program>(programs().map.insert(key, std::move(program)));
}

std::shared_ptr<const Program> makeProgram(const hpu::Device& device, Words key, const std::vector<Node>& nodes,
                                           const std::vector<Storage>& storages) {
  hpu::StatusOr<std::shared_ptr<const Program>> program = tryProgram(device, key, nodes, storages);
  if (!program.ok()) raise(program.status(), "compiling " + describe(nodes));
  return *program;
}

void injectCompileFaults(int64_t mostNodes, const std::string& op) {
  programs().faults.set(mostNodes, op);
}

}  // namespace hpu_torch
