// SPDX-License-Identifier: Apache-2.0
// Measures the functional MME: GFLOP/s of each layer, with its bias/activation/residual epilogue.
//
//   hpu-bench-mme [--set resnet50|gemm] [--batch N] [--threads N] [--iterations N] [--filter TEXT]
//                 [--precision f32|bf16] [--csv]
//
// The layers run one after another as in the network, each with its own weights, so that caches are
// as cold as they are there; times are the minimum and the median over the iterations.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "Layers.h"
#include "base/CpuFeatures.h"
#include "recipe/PackedWeights.h"
#include "runtime/driver/sim/functional/ProgramExecutor.h"
#include "tools/common/Interrupt.h"

namespace hpu::bench {
namespace {

using recipe::Operand;

/// What an epilogue kernel has to know of its layer (compiled kernels have it in their code).
struct Geometry {
  int64_t rowStride = 0, pixelStride = 0;
  int rowDim = 0, pixelDim = 0, channelDim = 0;
  Epilogue epilogue = Epilogue::kBias;
};
constexpr int kMaxLayers = 64;
Geometry geometries[kMaxLayers];

__attribute__((target_clones("avx512f", "avx2", "default"))) void epilogueRow(Epilogue epilogue, int64_t n,
                                                                              const float* sums, const float* bias,
                                                                              const float* residual, float* out) {
  if (epilogue == Epilogue::kBias) {
    for (int64_t i = 0; i < n; ++i) out[i] = sums[i] + bias[i];
  } else if (epilogue == Epilogue::kBiasRelu) {
    for (int64_t i = 0; i < n; ++i) {
      float value = sums[i] + bias[i];
      out[i] = value > 0 ? value : 0;
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      float value = sums[i] + bias[i] + residual[i];
      out[i] = value > 0 ? value : 0;
    }
  }
}

template <int Index>
void epilogueKernel(const HpuKernelArgs* args) {
  const Geometry& g = geometries[Index];
  int64_t n = args->hi[g.channelDim] - args->lo[g.channelDim], first = args->lo[g.channelDim];
  bool residual = g.epilogue == Epilogue::kBiasAddRelu;
  const auto* sums = static_cast<const float*>(args->buffers[0]);
  const auto* bias = static_cast<const float*>(args->buffers[1]);
  const auto* other = static_cast<const float*>(args->buffers[residual ? 2 : 1]);
  auto* out = static_cast<float*>(args->buffers[residual ? 3 : 2]);
  for (int64_t y = args->lo[g.rowDim]; y < args->hi[g.rowDim]; ++y)
    for (int64_t x = args->lo[g.pixelDim]; x < args->hi[g.pixelDim]; ++x) {
      int64_t at = y * g.rowStride + x * g.pixelStride + first;
      epilogueRow(g.epilogue, n, sums + at, bias + first, residual ? other + at : nullptr, out + at);
    }
}

template <int... I>
std::vector<HpuKernelFn> allKernels(std::integer_sequence<int, I...>) {
  return {&epilogueKernel<I>...};
}

/// One layer with its memory.
struct Prepared {
  Layer layer;
  std::unique_ptr<sim::ProgramExecutor> executor;
  std::vector<std::byte*> bases;
  std::vector<double> seconds;
};

std::byte* allocate(uint64_t bytes) {
  void* memory = std::aligned_alloc(4096, (bytes + 8191) / 4096 * 4096);
  auto* floats = static_cast<float*>(memory);
  for (uint64_t i = 0; i < bytes / 4; ++i) floats[i] = static_cast<float>((i * 2654435761u >> 16) % 15) / 64;
  return static_cast<std::byte*>(memory);
}

/// Builds programs; activations rotate through a few buffers as a memory planner would have them.
class Builder {
 public:
  Builder(ElementType type, int threads) : type_(type), threads_(threads) {}

  Prepared prepare(const Layer& layer, int index) {
    auto program = std::make_shared<recipe::Program>();
    Prepared prepared;
    prepared.layer = layer;
    auto section = [&](std::byte* memory, uint64_t bytes) {
      program->sections.push_back({recipe::SectionKind::kWorkspace, recipe::kNone, bytes});
      prepared.bases.push_back(memory);
      return static_cast<uint32_t>(program->sections.size() - 1);
    };
    recipe::MmeDesc mme;
    std::vector<int64_t> out;
    Geometry& g = geometries[index];
    g.epilogue = layer.epilogue;
    std::vector<int64_t> outStrides;
    if (layer.gemm) {
      mme.kind = recipe::MmeKind::kGemm;
      mme.a.sizes = {layer.batch, layer.m, layer.k};
      mme.a.strides = {layer.m * layer.k, layer.k, 1};
      mme.b.sizes = {layer.batch, layer.k, layer.n};
      mme.b.strides = {layer.k * layer.n, layer.n, 1};
      out = {layer.batch, layer.m, layer.n};
      outStrides = {layer.m * layer.n, layer.n, 1};
      g = {outStrides[0], layer.n, 0, 1, 2, layer.epilogue};
    } else {
      mme.kind = recipe::MmeKind::kConv2d;
      int64_t size = layer.size, to = layer.outSize();
      mme.a.sizes = {layer.batch, layer.in, size, size};
      mme.a.strides = {size * size * layer.in, 1, size * layer.in, layer.in};
      if (layer.planarInput) mme.a.strides = {size * size * layer.in, size * size, size, 1};
      mme.b.sizes = {layer.out, layer.in, layer.window, layer.window};
      mme.strides[0] = mme.strides[1] = layer.stride;
      for (int i = 0; i < 2; ++i) mme.padBegin[i] = mme.padEnd[i] = layer.window / 2;
      out = {layer.batch, layer.out, to, to};
      outStrides = {to * to * layer.out, 1, to * layer.out, layer.out};
      g = {to * layer.out, layer.out, 2, 3, 1, layer.epilogue};
    }
    mme.a.type = mme.b.type = type_;
    auto elements = static_cast<uint64_t>(numElements(mme.a.sizes));
    mme.a.section = section(activation(next_ + 3), elements * 4);
    if (layer.constantB || !layer.gemm) {
      mme.packing = recipe::BPacking::kBlocked;
      recipe::PackedShape shape{layer.gemm ? layer.batch : layer.window * layer.window, layer.gemm ? layer.k : layer.in,
                                layer.gemm ? layer.n : layer.out};
      auto bytes = static_cast<uint64_t>(shape.elements() * 4);
      std::byte* weights = allocate(bytes);
      mme.b.section = section(weights, bytes);
      program->constants.push_back({mme.b.section, 0, reinterpret_cast<const uint8_t*>(weights), bytes, nullptr});
    } else {
      auto bytes = static_cast<uint64_t>(numElements(mme.b.sizes) * 4);
      mme.b.section = section(allocate(bytes), bytes);
    }
    // C: a ring in SRAM, so that it never exists as a whole.
    mme.c.type = ElementType::kF32;
    mme.c.sizes = out;
    mme.c.strides = outStrides;
    program->sections.push_back({recipe::SectionKind::kSram, recipe::kNone, 1 << 20});
    prepared.bases.push_back(nullptr);
    mme.c.section = static_cast<uint32_t>(program->sections.size() - 1);
    mme.c.ring = {2, layer.gemm ? 1u : 2u, 1 << 18};
    auto outBytes = static_cast<uint64_t>(numElements(out)) * 4;
    Operand bias = mme.c, result = mme.c, residual = mme.c;
    bias.ring = result.ring = residual.ring = {};
    bias.section = section(allocate(65536), 65536);
    bias.strides.assign(out.size(), 0);
    bias.strides[static_cast<size_t>(g.channelDim)] = 1;
    residual.section = section(activation(next_ + 1), outBytes);
    result.section = section(activation(next_), outBytes);
    ++next_;

    recipe::Op op, epilogue;
    op.engine = Engine::kMme;
    op.name = layer.name;
    op.space = out;
    op.mme = mme;
    epilogue.engine = Engine::kTpc;
    epilogue.name = layer.name + "+epilogue";
    epilogue.space = out;
    epilogue.tpc.kernel = static_cast<uint32_t>(index);
    epilogue.tpc.inputs = {mme.c, bias};
    if (layer.epilogue == Epilogue::kBiasAddRelu) epilogue.tpc.inputs.push_back(residual);
    epilogue.tpc.outputs = {result};
    program->kernels.resize(kMaxLayers);
    program->ops = {op, epilogue};
    program->hostOrder = {0, 1};
    program->bundles.push_back({layer.name, {0, 1}, 1});
    auto made = sim::ProgramExecutor::create(
        program, {threads_}, sim::KernelCode::fromFunctions(allKernels(std::make_integer_sequence<int, kMaxLayers>{})));
    if (!made.ok()) {
      std::fprintf(stderr, "%s: %s\n", layer.name.c_str(), made.status().message().c_str());
      std::exit(3);
    }
    prepared.executor = std::move(made).value();
    return prepared;
  }

 private:
  std::byte* activation(int64_t number) {
    auto& slot = activations_[number % 4];
    if (!slot) slot = allocate(64 << 20);
    return slot;
  }
  ElementType type_;
  int threads_;
  int64_t next_ = 0;
  std::byte* activations_[4] = {};
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace
}  // namespace hpu::bench

int main(int argc, char** argv) {
  using namespace hpu;
  std::string set = "resnet50", filter;
  int64_t batch = 1;
  int threads = 1, iterations = 20;
  ElementType type = ElementType::kF32;
  bool csv = false;
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i];
    if (name == "--csv") {
      csv = true;
      continue;
    }
    if (i + 1 >= argc) {
      std::fprintf(stderr,
                   "usage: hpu-bench-mme [--set resnet50|gemm] [--batch N] [--threads N] "
                   "[--iterations N] [--filter TEXT] [--precision f32|bf16] [--csv]\n");
      return 1;
    }
    std::string value = argv[++i];
    if (name == "--set") set = value;
    if (name == "--batch") batch = std::atoll(value.c_str());
    if (name == "--threads") threads = std::atoi(value.c_str());
    if (name == "--iterations") iterations = std::atoi(value.c_str());
    if (name == "--filter") filter = value;
    if (name == "--precision" && value == "bf16") type = ElementType::kBF16;
  }
  std::vector<bench::Layer> layers = set == "gemm" ? bench::gemms(128 * batch) : bench::resnet50(batch);
  bench::Builder builder(type, threads);
  std::vector<bench::Prepared> prepared;
  double before = bench::now();
  for (size_t i = 0; i < layers.size(); ++i)
    if (filter.empty() || layers[i].name.find(filter) != std::string::npos)
      prepared.push_back(builder.prepare(layers[i], static_cast<int>(i)));
  double prepareSeconds = bench::now() - before;

  std::vector<double> totals;
  tools::Interrupt interrupt("stopping after the run in flight");
  for (int iteration = -2; iteration < iterations && interrupt.signal() == 0; ++iteration) {
    double total = 0;
    for (bench::Prepared& p : prepared) {
      double start = bench::now();
      p.executor->run(p.bases).ignore();
      double seconds = bench::now() - start;
      total += seconds;
      if (iteration >= 0) p.seconds.push_back(seconds);
    }
    if (iteration >= 0) totals.push_back(total);
  }
  if (totals.empty() && interrupt.signal() != 0) return static_cast<int>(tools::endBySignal(interrupt.signal()));
  double minimum = 0, flops = 0;
  if (csv) std::printf("layer,gflop,min_us,median_us,gflops_best,gflops_median\n");
  if (!csv)
    std::printf("%s, %d thread(s), %s, batch %lld, %d iterations; prepared in %.0f ms\n", base::cpuModelName().c_str(),
                threads, std::string(elementTypeName(type)).c_str(), static_cast<long long>(batch),
                static_cast<int>(totals.size()), prepareSeconds * 1e3);
  for (bench::Prepared& p : prepared) {
    std::sort(p.seconds.begin(), p.seconds.end());
    double best = p.seconds.front(), median = p.seconds[p.seconds.size() / 2];
    minimum += best;
    flops += p.layer.flops();
    std::printf(csv ? "%s,%.6f,%.2f,%.2f,%.2f,%.2f\n"
                    : "%-20s %8.4f GFLOP  min %9.1f us  median %9.1f us  %7.1f GFLOP/s (median %.1f)\n",
                p.layer.name.c_str(), p.layer.flops() / 1e9, best * 1e6, median * 1e6, p.layer.flops() / best / 1e9,
                p.layer.flops() / median / 1e9);
  }
  std::sort(totals.begin(), totals.end());
  if (!csv)
    std::printf(
        "total %.3f GFLOP: best run %.3f ms, median %.3f ms, sum of the layers' best %.3f ms "
        "(%.1f GFLOP/s)\n",
        flops / 1e9, totals.front() * 1e3, totals[totals.size() / 2] * 1e3, minimum * 1e3, flops / minimum / 1e9);
  if (interrupt.signal() == 0) return 0;
  std::fprintf(stderr, "note: interrupted after %zu of %d runs\n", totals.size(), iterations);
  return static_cast<int>(tools::endBySignal(interrupt.signal()));
}
