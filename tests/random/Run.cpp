// SPDX-License-Identifier: Apache-2.0
#include "tests/random/Run.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "tests/random/Compare.h"
#include "tools/common/Session.h"

namespace hpu::randomtest {
namespace {

using base::strCat;
constexpr int kThreads = 2;

/// Adds the time of a scope.
class Timed {
 public:
  explicit Timed(double& to) : to_(to) {}
  ~Timed() { to_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  double& to_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

Trial judge(const Status& status) {
  const std::string& text = status.message();
  if (status.code() == StatusCode::kInternal || text.find("bug") != std::string::npos)
    return {Verdict::kBug, status.toString()};
  if (status.code() == StatusCode::kUnimplemented || status.code() == StatusCode::kResourceExhausted)
    return {Verdict::kRefused, text};
  return {Verdict::kInvalid, status.toString()};
}

StatusOr<std::vector<HostTensor>> runOnce(const Graph& graph, const Draw& draw, const std::vector<HostTensor>& inputs,
                                          Seconds& seconds) {
  CompileOptions options;
  options.target = draw.target;
  options.optLevel = draw.level;
  options.precision = draw.precision;
  options.cpu = "native";
  StatusOr<CompileResult> compiled = [&] {
    Timed timed(seconds.compile);
    return compile(graph, options);
  }();
  if (!compiled.ok()) return compiled.status();
  Timed timed(seconds.run);
  DeviceOptions device;
  device.index = static_cast<int>(draw.target) - 1;
  device.threads = kThreads;
  HPU_ASSIGN(tools::Session session, tools::Session::open(compiled->recipe, device));
  return session.run(inputs);
}

Trial judge(const Model& model, const StatusOr<std::vector<HostTensor>>& results) {
  if (!results.ok()) return judge(results.status());
  std::vector<Mismatch> mismatches = compare(model, *results);
  return mismatches.empty() ? Trial{} : Trial{Verdict::kMismatch, mismatches.front().text};
}

StatusOr<Graph> importModel(const Model& model, const std::string& path, Seconds& seconds) {
  std::ofstream(path, std::ios::binary) << serialize(model);
  Timed timed(seconds.import);
  return importOnnx(path);
}

std::vector<HostTensor> inputsOf(const Model& model) {
  std::vector<HostTensor> inputs;
  for (const std::string& name : model.inputs) inputs.push_back(model.values.at(name).tensor);
  return inputs;
}

/// Models with less in them, those with least first.
std::vector<Model> smaller(const Model& model) {
  std::vector<Model> models;
  if (model.outputs.size() > 1)
    for (const std::string& output : model.outputs) models.push_back(part(model, model.nodes, {output}));
  // What is in no disguise fails by itself.
  for (size_t i = 0; i < model.nodes.size(); ++i) {
    if (!model.nodes[i].disguise) continue;
    std::vector<Node> nodes = model.nodes;
    const std::vector<Node> plain = nodes[i].disguise->plain;
    nodes.erase(nodes.begin() + static_cast<int64_t>(i));
    nodes.insert(nodes.begin() + static_cast<int64_t>(i), plain.begin(), plain.end());
    models.push_back(part(model, nodes, model.outputs));
  }
  // One node alone, a few in a row, then all but one: what they read of others becomes an input.
  size_t count = model.nodes.size();
  auto isConstant = [](const Node& node) { return node.op == "Constant"; };
  auto add = [&](const std::vector<Node>& nodes) {
    if (nodes.empty() || std::all_of(nodes.begin(), nodes.end(), isConstant)) return;
    std::set<std::string> made, read;
    for (const Node& node : nodes) {
      if (!isConstant(node)) made.insert(node.outputs.begin(), node.outputs.end());
      read.insert(node.inputs.begin(), node.inputs.end());
    }
    std::vector<std::string> outputs;
    for (const std::string& name : made)
      if (!name.empty() && (!read.count(name) || std::count(model.outputs.begin(), model.outputs.end(), name)))
        outputs.push_back(name);
    Model smaller = part(model, nodes, outputs);
    if (smaller.nodes.size() < count || smaller.outputs.size() < model.outputs.size())
      models.push_back(std::move(smaller));
  };
  std::vector<Node> constants;
  for (const Node& node : model.nodes)
    if (isConstant(node)) constants.push_back(node);
  for (size_t length : {size_t{1}, size_t{2}, count / 2})
    for (size_t first = 0; length > 0 && first + length <= count && length < count;
         first += std::max<size_t>(1, length / 2)) {
      std::vector<Node> nodes = constants;
      for (size_t i = first; i < first + length; ++i)
        if (!isConstant(model.nodes[i])) nodes.push_back(model.nodes[i]);
      if (nodes.size() > constants.size()) add(nodes);
    }
  for (size_t i = 0; i < count && count > 2; ++i) {
    if (isConstant(model.nodes[i])) continue;
    std::vector<Node> nodes = model.nodes;
    nodes.erase(nodes.begin() + static_cast<int64_t>(i));
    add(nodes);
  }
  return models;
}

}  // namespace

std::string flags(const Draw& draw) {
  std::string text = strCat("--target ", targetName(draw.target), " -O", draw.level);
  if (draw.precision != Precision::kF32) text += strCat(" --precision ", precisionName(draw.precision));
  return text;
}

const char* verdictName(Verdict verdict) {
  constexpr const char* kNames[] = {"ok", "refused", "MISMATCH", "BUG", "INVALID", "CRASH", "HANG"};
  return kNames[static_cast<int>(verdict)];
}

Status Runner::openDevice(Target target) {
  Device& device = devices_[static_cast<int>(target) - 1];
  if (device.valid()) return okStatus();
  DeviceOptions options;
  options.target = target;
  options.index = static_cast<int>(target) - 1;
  options.threads = kThreads;
  HPU_ASSIGN(device, Device::open(options));
  return okStatus();
}

Trial Runner::run(const Model& model, const Draw& draw) {
  return run(model, {draw}, nullptr);
}

void Runner::run(std::vector<Task>& tasks) {
  for (Task& task : tasks)
    for (const Draw& draw : task.draws)
      if (Status opened = openDevice(draw.target); !opened.ok()) {
        for (Task& refused : tasks) refused.trial = judge(opened);
        return;
      }
  std::atomic<size_t> next = 0;
  std::vector<Seconds> times(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (size_t at; (at = next++) < tasks.size();) {
        Task& task = tasks[at];
        task.failed = task.draws.front();
        StatusOr<Graph> graph = importModel(*task.model, strCat(scratch_, "/model-", t, ".onnx"), times[t]);
        if (!graph.ok()) {
          task.trial = judge(graph.status());
          continue;
        }
        const std::vector<HostTensor> inputs = inputsOf(*task.model);
        for (const Draw& draw : task.draws) {
          const Trial trial = judge(*task.model, runOnce(*graph, draw, inputs, times[t]));
          if (trial.verdict == Verdict::kOk) continue;
          task.trial = trial;
          task.failed = draw;
          if (trial.verdict != Verdict::kRefused) break;
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const Seconds& time : times) {
    seconds.import += time.import;
    seconds.compile += time.compile;
    seconds.run += time.run;
  }
}

Trial Runner::run(const Model& model, const std::vector<Draw>& draws, Draw* failed) {
  if (failed) *failed = draws.front();
  StatusOr<Graph> graph = importModel(model, scratch_ + "/model.onnx", seconds);
  if (!graph.ok()) return judge(graph.status());
  const std::vector<HostTensor> inputs = inputsOf(model);
  // Each draw in a thread: compiling is what takes the time.
  std::vector<StatusOr<std::vector<HostTensor>>> results(draws.size(), std::vector<HostTensor>());
  std::vector<Seconds> times(draws.size());
  std::vector<std::thread> threads;
  for (const Draw& draw : draws)
    if (Status opened = openDevice(draw.target); !opened.ok()) return judge(opened);
  for (size_t i = 1; i < draws.size(); ++i)
    threads.emplace_back([&, i] { results[i] = runOnce(*graph, draws[i], inputs, times[i]); });
  results[0] = runOnce(*graph, draws[0], inputs, times[0]);
  for (std::thread& thread : threads) thread.join();
  Trial result;
  for (size_t i = 0; i < draws.size(); ++i) {
    seconds.compile += times[i].compile;
    seconds.run += times[i].run;
    Trial trial = judge(model, results[i]);
    if (trial.verdict == Verdict::kOk) continue;
    if (failed) *failed = draws[i];
    result = trial;
    if (trial.verdict != Verdict::kRefused) break;
  }
  return result;
}

Model shrink(Model model, const std::function<bool(const Model&)>& fails, int calls) {
  for (bool progress = true; progress;) {
    progress = false;
    for (Model& candidate : smaller(model)) {
      if (calls-- <= 0) return model;
      if (!fails(candidate)) continue;
      model = std::move(candidate);
      progress = true;
      break;
    }
  }
  return model;
}

}  // namespace hpu::randomtest
