// SPDX-License-Identifier: Apache-2.0
// What the caller of the SynapseAI C API pays: a launch by id and by name, and an eager op from synGraphCreateEager to
// the end of its recipe, whose structure was compiled before. Each call is timed by itself; the counters are the median
// and the 99th percentile in nanoseconds. The stream is emptied between batches, untimed.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "habanalabs/hpu_synapse_ext.h"
#include "habanalabs/synapse_api.h"

namespace {

using Clock = std::chrono::steady_clock;

void check(synStatus status) {
  if (status == synSuccess) return;
  std::fprintf(stderr, "synStatus %d: %s\n", static_cast<int>(status), hpuSynLastError());
  std::exit(1);
}

struct Session {
  synDeviceId device = 0;
  synStreamHandle stream = nullptr;
  Session() {
    check(synInitialize());
    check(synDeviceAcquireByDeviceType(&device, synDeviceGaudi2));
    check(synStreamCreateGeneric(&stream, device, 0));
  }
  uint64_t allocate(uint64_t bytes) const {
    uint64_t address = 0;
    check(synDeviceMalloc(device, bytes, 0, 0, &address));
    return address;
  }
};
const Session& session() {
  static const Session* instance = new Session;
  return *instance;
}

synTensor persistent(synGraphHandle graph, const char* name, uint64_t size) {
  synTensor tensor = nullptr;
  synSectionHandle section = nullptr;
  synTensorGeometry geometry = {};
  geometry.dims = 1;
  geometry.sizes[0] = size;
  check(synTensorHandleCreate(&tensor, graph, DATA_TENSOR, name));
  check(synTensorSetGeometry(tensor, &geometry, synGeometrySizes));
  check(synTensorSetDeviceDataType(tensor, syn_type_int32));
  check(synSectionCreate(&section, 0, graph));
  check(synTensorAssignToSection(tensor, section, 0));
  check(synSectionDestroy(section));
  return tensor;
}

/// `copies` of one tensor to another.
synRecipeHandle makeRecipe(synGraphHandle graph, int copies, const std::vector<std::string>& names) {
  for (int i = 0; i < copies; ++i) {
    synTensor in = persistent(graph, names[static_cast<size_t>(2 * i)].c_str(), 64);
    synTensor out = persistent(graph, names[static_cast<size_t>(2 * i + 1)].c_str(), 64);
    check(synNodeCreate(graph, &in, &out, 1, 1, nullptr, 0, "memcpy", "copy", nullptr, nullptr));
  }
  synRecipeHandle recipe = nullptr;
  check(synGraphCompile(&recipe, graph, "benchmark", nullptr));
  check(synGraphDestroy(graph));
  return recipe;
}

std::vector<std::string> namesOf(int copies) {
  std::vector<std::string> names;
  for (int i = 0; i < 2 * copies; ++i) names.push_back("tensor_of_a_model_" + std::to_string(i));
  return names;
}

std::vector<synLaunchTensorInfo> infosOf(synRecipeHandle recipe, const std::vector<std::string>& names) {
  std::vector<synLaunchTensorInfo> infos(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    const char* name = names[i].c_str();
    infos[i] = {};
    infos[i].tensorName = name;
    infos[i].pTensorAddress = session().allocate(256);
    check(synTensorRetrieveIds(recipe, &name, &infos[i].tensorId, 1));
  }
  return infos;
}

/// Times `call` again and again, in batches that `finish` ends.
template <typename Call>
void timeCalls(benchmark::State& state, const Call& call) {
  std::vector<int64_t> samples;
  for (auto _ : state) {
    int64_t sum = 0;
    for (int i = 0; i < 200; ++i) {
      Clock::time_point start = Clock::now();
      call();
      samples.push_back(std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
      sum += samples.back();
    }
    check(synStreamSynchronize(session().stream));
    state.SetIterationTime(static_cast<double>(sum) * 1e-9);
  }
  std::sort(samples.begin(), samples.end());
  state.counters["median_ns"] = static_cast<double>(samples[samples.size() / 2]);
  state.counters["p99_ns"] = static_cast<double>(samples[samples.size() * 99 / 100]);
}

void launchRecipe(benchmark::State& state, uint32_t flags) {
  auto copies = static_cast<int>(state.range(0));
  synGraphHandle graph = nullptr;
  check(synGraphCreate(&graph, synDeviceGaudi2));
  std::vector<std::string> names = namesOf(copies);
  synRecipeHandle recipe = makeRecipe(graph, copies, names);
  std::vector<synLaunchTensorInfo> infos = infosOf(recipe, names);
  timeCalls(state, [&] {
    check(synLaunch(session().stream, infos.data(), static_cast<uint32_t>(infos.size()), 0, recipe, flags));
  });
  check(synRecipeDestroy(recipe));
  for (const synLaunchTensorInfo& info : infos) check(synDeviceFree(session().device, info.pTensorAddress, 0));
}

void BM_LaunchById(benchmark::State& state) {
  launchRecipe(state, 0);
}
BENCHMARK(BM_LaunchById)->Arg(1)->Arg(8)->Arg(64)->UseManualTime();
void BM_LaunchByName(benchmark::State& state) {
  launchRecipe(state, SYN_FLAGS_TENSOR_NAME);
}
BENCHMARK(BM_LaunchByName)->Arg(1)->Arg(8)->Arg(64)->UseManualTime();

/// Graph, tensors, node, compilation, ids, workspace, launch, and the end of graph and recipe.
void BM_EagerOp(benchmark::State& state) {
  std::vector<std::string> names = {"input", "output"};
  uint64_t in = session().allocate(256), out = session().allocate(256);
  timeCalls(state, [&] {
    synGraphHandle graph = nullptr;
    check(synGraphCreateEager(&graph, synDeviceGaudi2));
    synRecipeHandle recipe = makeRecipe(graph, 1, names);
    synLaunchTensorInfo infos[2] = {};
    infos[0].tensorName = "input";
    infos[1].tensorName = "output";
    infos[0].pTensorAddress = in;
    infos[1].pTensorAddress = out;
    const char* asked[] = {"input", "output"};
    uint64_t ids[2], workspace = 0;
    check(synTensorRetrieveIds(recipe, asked, ids, 2));
    infos[0].tensorId = ids[0];
    infos[1].tensorId = ids[1];
    check(synWorkspaceGetSize(&workspace, recipe));
    check(synLaunch(session().stream, infos, 2, 0, recipe, 0));
    check(synRecipeDestroy(recipe));
  });
  check(synDeviceFree(session().device, in, 0));
  check(synDeviceFree(session().device, out, 0));
}
BENCHMARK(BM_EagerOp)->UseManualTime();

/// The part of it that compiles and launches: what was built before is not timed.
void BM_EagerCompileAndLaunch(benchmark::State& state) {
  std::vector<std::string> names = {"input", "output"};
  uint64_t in = session().allocate(256), out = session().allocate(256);
  std::vector<int64_t> samples;
  for (auto _ : state) {
    int64_t sum = 0;
    for (int i = 0; i < 200; ++i) {
      synGraphHandle graph = nullptr;
      check(synGraphCreateEager(&graph, synDeviceGaudi2));
      synTensor x = persistent(graph, "input", 64), y = persistent(graph, "output", 64);
      check(synNodeCreate(graph, &x, &y, 1, 1, nullptr, 0, "memcpy", "copy", nullptr, nullptr));
      synLaunchTensorInfo infos[2] = {};
      infos[0].pTensorAddress = in;
      infos[1].pTensorAddress = out;
      infos[1].tensorId = 1;
      Clock::time_point start = Clock::now();
      synRecipeHandle recipe = nullptr;
      check(synGraphCompile(&recipe, graph, "benchmark", nullptr));
      check(synLaunch(session().stream, infos, 2, 0, recipe, 0));
      samples.push_back(std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
      sum += samples.back();
      check(synGraphDestroy(graph));
      check(synRecipeDestroy(recipe));
    }
    check(synStreamSynchronize(session().stream));
    state.SetIterationTime(static_cast<double>(sum) * 1e-9);
  }
  std::sort(samples.begin(), samples.end());
  state.counters["median_ns"] = static_cast<double>(samples[samples.size() / 2]);
  state.counters["p99_ns"] = static_cast<double>(samples[samples.size() * 99 / 100]);
  check(synDeviceFree(session().device, in, 0));
  check(synDeviceFree(session().device, out, 0));
}
BENCHMARK(BM_EagerCompileAndLaunch)->UseManualTime();

}  // namespace

int main(int argc, char** argv) {
  setenv("HPU_SYNAPSE_COMPILER", HPU_TEST_COMPILER, 0);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  session();
  benchmark::RunSpecifiedBenchmarks();
  return synDestroy() == synSuccess ? 0 : 1;
}
