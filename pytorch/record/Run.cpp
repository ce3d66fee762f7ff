// SPDX-License-Identifier: Apache-2.0
#include <c10/core/DeviceGuard.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>

#include "hpu/compiler.h"
#include "hpu/eager.h"
#include "pytorch/device/Memory.h"
#include "pytorch/device/Streams.h"
#include "pytorch/record/Pending.h"
#include "pytorch/record/TargetScope.h"
#include "pytorch/record/Translate.h"

namespace hpu_torch {
namespace {

/// What a structure was compiled to, beside its recipe.
struct Plan {
  std::vector<Binding> inputs, outputs;
  std::vector<std::pair<size_t, size_t>> numbers;  ///< Input, byte in the block of numbers.
  size_t numberBytes = 0;
};

constexpr size_t kMostPlans = 8192;

std::mutex& plansMutex() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}
struct BytesHash {
  size_t operator()(const hpu::EagerKey& key) const { return key.hash(); }
};
using Plans = std::unordered_map<hpu::EagerKey, std::shared_ptr<const Plan>, BytesHash>;
Plans& plans() {
  static Plans& all = *new Plans;
  return all;
}
hpu::EagerCache& cache() {
  static hpu::EagerCache& instance = *new hpu::EagerCache;
  return instance;
}

std::shared_ptr<const Plan> findPlan(const hpu::EagerKey& key) {
  std::lock_guard<std::mutex> lock(plansMutex());
  auto found = plans().find(key);
  return found == plans().end() ? nullptr : found->second;
}

std::shared_ptr<const Plan> planOf(const Translated& translated) {
  auto plan = std::make_shared<Plan>();
  plan->inputs = translated.inputs;
  plan->outputs = translated.outputs;
  for (size_t i = 0; i < plan->inputs.size(); ++i) {
    if (plan->inputs[i].number < 0) continue;
    plan->numbers.emplace_back(i, plan->numberBytes);
    plan->numberBytes += 8;
  }
  return plan;
}

/// Numbers that launches read, in device memory. Most are the same from step to step: they stay there.
class NumberBlocks {
 public:
  /// Kept by the caller until the launch is enqueued.
  std::shared_ptr<c10::DataPtr> find(OpenDevice& device, c10::StreamId stream, std::string bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::string key = std::move(bytes);
    const size_t size = key.size();
    const int64_t place = device.index * kStreams + stream;
    key.append(reinterpret_cast<const char*>(&place), sizeof place);
    auto found = blocks_.find(key);
    if (found != blocks_.end()) return found->second;
    if (blocks_.size() >= kMost) blocks_.clear();  // What launches still read is behind in the stream's order.
    auto memory = std::make_shared<c10::DataPtr>(allocator()->allocate(size));
    auto staged = std::make_shared<std::string>(key.substr(0, size));
    check(device.streams->get(stream).copyToDevice(deviceAddress(memory->get()), staged->data(),
                                                   static_cast<int64_t>(size)),
          "copying numbers to the device");
    device.streams->keepUntilDone(stream, staged, static_cast<int64_t>(size));
    blocks_.emplace(std::move(key), memory);
    return memory;
  }

 private:
  static constexpr size_t kMost = 1024;
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<c10::DataPtr>> blocks_;
};
NumberBlocks& numberBlocks() {
  static NumberBlocks& blocks = *new NumberBlocks;
  return blocks;
}

std::string numbersOf(const Plan& plan, const Pending& graph) {
  std::string bytes(plan.numberBytes, '\0');
  for (auto [input, at] : plan.numbers) {
    const Binding& binding = plan.inputs[input];
    const Number& number = graph.numbers[static_cast<size_t>(binding.node)][static_cast<size_t>(binding.number)];
    if (binding.type == hpu::ElementType::kF32) {
      const auto value = static_cast<float>(number.real);
      std::memcpy(bytes.data() + at, &value, sizeof value);
    } else {
      std::memcpy(bytes.data() + at, &number.integer, sizeof number.integer);
    }
  }
  return bytes;
}

std::string describe(const Pending& graph) {
  const std::string first = graph.nodes[0].signature->text();
  return graph.nodes.size() == 1 ? first : "a graph of " + std::to_string(graph.nodes.size()) + " ops from " + first;
}

}  // namespace

RunCounters& runCounters() {
  static RunCounters& counters = *new RunCounters;
  return counters;
}

void runPending(c10::DeviceIndex index, Pending& graph) {
  OpenDevice& device = open(index);
  c10::DeviceGuard guard(c10::Device(kHpu, index));
  const c10::StreamId current = currentStreamId(index);
  // Memory of the graph's own is of its stream.
  struct Restore {
    c10::DeviceIndex index;
    c10::StreamId stream;
    ~Restore() { setCurrentStreamId(index, stream); }
  } restore{index, current};
  setCurrentStreamId(index, graph.stream);
  const TargetScope target(device.device.info().target);

  std::vector<bool> isAlive(graph.slots.size());
  hpu::EagerKey::Builder builder;
  builder.add(graph.key.data(), graph.key.size() * sizeof(int64_t));
  int64_t bits = 1;
  for (size_t s = 0; s < graph.slots.size(); ++s) {
    Pending::Slot& slot = graph.slots[s];
    if (slot.isWritten) {
      if (!slot.kept) {
        slot.kept = slot.made.lock();
        isAlive[s] = static_cast<bool>(slot.kept);
      } else {
        isAlive[s] = c10::raw::intrusive_ptr::use_count(slot.kept.get()) > 1;
      }
    }
    bits = bits << 1 | (isAlive[s] ? 1 : 0);
    if (s % 62 == 61) builder.add(bits), bits = 1;
  }
  builder.add(bits).add(static_cast<int64_t>(device.device.info().target));
  const hpu::EagerKey key = builder.build();

  RunCounters& counters = runCounters();
  std::shared_ptr<const Plan> plan = findPlan(key);
  bool isCompiled = false;
  std::optional<Translated> translated;
  auto compile = [&]() -> hpu::StatusOr<hpu::Recipe> {
    isCompiled = true;
    const auto start = std::chrono::steady_clock::now();
    if (!translated) {  // The recipe was dropped, its plan was not.
      hpu::StatusOr<Translated> again = translate(graph.nodes, isAlive);
      if (!again.ok()) return again.status();
      translated = std::move(again).value();
    }
    hpu::CompileOptions options;
    options.target = device.device.info().target;
    options.cpu = "native";
    hpu::StatusOr<hpu::CompileResult> result = hpu::compile(translated->graph, options);
    counters.compileNs +=
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
    if (!result.ok()) return result.status();
    return result->recipe;
  };
  if (!plan) {
    hpu::StatusOr<Translated> made = translate(graph.nodes, isAlive);
    if (!made.ok()) raise(made.status(), "translating " + describe(graph));
    translated = std::move(made).value();
    plan = planOf(*translated);
    std::lock_guard<std::mutex> lock(plansMutex());
    if (plans().size() >= kMostPlans) plans().clear();
    plans()[key] = plan;
  }
  // What is written is seen by nobody: nothing to do.
  if (plan->outputs.empty()) return;
  hpu::StatusOr<hpu::Executable> executable = cache().executable(device.device, key, compile);
  if (!executable.ok()) raise(executable.status(), "compiling " + describe(graph));
  ++counters.graphs;
  if (static_cast<int64_t>(graph.nodes.size()) > counters.largest)
    counters.largest = static_cast<int64_t>(graph.nodes.size());
  ++(isCompiled ? counters.compiles : counters.hits);

  hpu::LaunchArguments arguments;
  std::shared_ptr<c10::DataPtr> block;
  if (plan->numberBytes > 0) block = numberBlocks().find(device, graph.stream, numbersOf(*plan, graph));
  const uint64_t numbers = block ? deviceAddress(block->get()) : 0;
  auto addressOf = [&](const Binding& binding) {
    const Pending::Slot& slot = graph.slots[static_cast<size_t>(binding.storage)];
    return deviceAddress(slot.kept->data()) + static_cast<uint64_t>(binding.byteOffset);
  };
  arguments.inputs.reserve(plan->inputs.size());
  arguments.outputs.reserve(plan->outputs.size());
  for (const Binding& binding : plan->inputs) arguments.inputs.push_back(binding.number < 0 ? addressOf(binding) : 0);
  for (auto [input, at] : plan->numbers) arguments.inputs[input] = numbers + at;
  for (const Binding& binding : plan->outputs) arguments.outputs.push_back(addressOf(binding));
  const hpu::Status launched = executable->launch(device.streams->get(graph.stream), arguments);
  if (!launched.ok()) raise(launched, "launching " + describe(graph));
}

}  // namespace hpu_torch
