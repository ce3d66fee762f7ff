// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/model/PublishedRows.h"

#include <algorithm>

#include "benchmarks/model/GemmFit.h"

namespace hpu::benchmarks {
namespace {

using arch::TargetDesc;
using perfmodel::GemmShape;

constexpr ElementType kBf16 = ElementType::kBF16, kF16 = ElementType::kF16, kF32 = ElementType::kF32,
                      kFp8 = ElementType::kF8E4M3;

const TargetDesc& g1() {
  return arch::targetDesc(Target::kGaudi1);
}
const TargetDesc& g2() {
  return arch::targetDesc(Target::kGaudi2);
}
const TargetDesc& g3() {
  return arch::targetDesc(Target::kGaudi3);
}

GemmShape gemm(int64_t m, int64_t k, int64_t n, ElementType type) {
  GemmShape shape;
  shape.m = m, shape.k = k, shape.n = n, shape.type = type;
  return shape;
}

/// A stream kernel over bf16 vectors, as many a second as the model says; `operands` and `flops` of each element.
struct StreamKernel {
  const char* name;
  int loads, flops;
};

perfmodel::TpcWork streamWork(const StreamKernel& kernel, int64_t elements, bool fromMemory) {
  constexpr double vectors = 1.0 / 128;  // bf16 lanes of a 256-byte vector.
  perfmodel::TpcWork work;
  work.points = elements;
  work.loads = fromMemory ? kernel.loads * vectors : 0;
  work.stores = fromMemory ? vectors : 0;
  work.vectorOps = vectors;  // A multiply-add is one instruction.
  return work;
}

double streamGflops(const TargetDesc& target, const StreamKernel& kernel, bool fromMemory) {
  constexpr int64_t elements = int64_t{1} << 28;
  perfmodel::Bytes bytes{fromMemory ? elements * 2 * (kernel.loads + 1) : 0, 0};
  perfmodel::Cost cost = tpcCost(target, target.clock(), streamWork(kernel, elements, fromMemory), bytes);
  return static_cast<double>(elements) * kernel.flops / static_cast<double>(cost.alone) * 1e3;
}

/// The least number of TPCs that reach 97 % of what all of them do.
int64_t saturatingTpcs(const StreamKernel& kernel) {
  TargetDesc target = g2();
  double all = streamGflops(target, kernel, true);
  for (target.numTpcs = 1; target.numTpcs < g2().numTpcs; ++target.numTpcs)
    if (streamGflops(target, kernel, true) >= 0.97 * all) break;
  return target.numTpcs;
}

}  // namespace

std::vector<PublishedRow> measuredGemms() {
  struct Measured {
    const TargetDesc& target;
    int64_t m, n, k;
    ElementType type;
    double tflops;
    bool gated;
    const char* source;
  };
  const char *mamf = "stas00/ml-engineering", *paper = "arXiv 2501.00210 (abstract)";
  const Measured list[] = {
      {g2(), 14336, 15360, 2048, kBf16, 418.7, true, mamf},  {g2(), 6144, 11264, 5120, kFp8, 826.5, true, mamf},
      {g2(), 20224, 11520, 19968, kBf16, 429.3, true, mamf}, {g2(), 8192, 8192, 8192, kBf16, 429.0, false, paper},
      {g3(), 16384, 4096, 768, kBf16, 1243.0, true, mamf},   {g3(), 16640, 1536, 3072, kFp8, 1289.5, true, mamf},
  };
  std::vector<PublishedRow> rows;
  for (const Measured& x : list) {
    GemmShape shape = gemm(x.m, x.k, x.n, x.type);
    PublishedRow row;
    row.what = std::string(x.target.name) + " " + std::to_string(x.m) + "x" + std::to_string(x.k) + "x" +
               std::to_string(x.n) + " " + (x.type == kFp8 ? "fp8" : "bf16");
    row.unit = "TFLOP/s";
    row.published = x.tflops;
    row.model = predictTflops(x.target, x.target.clock(), shape);
    row.roofline = rooflineTflops(x.target, x.target.clock(), shape);
    row.tolerance = 0.03;
    row.gated = x.gated;
    row.source = x.source;
    rows.push_back(row);
  }
  return rows;
}

std::vector<PublishedRow> measuredVectors() {
  const StreamKernel add{"ADD", 2, 1}, scale{"SCALE", 1, 1}, triad{"TRIAD", 2, 2};
  const char *summary = "arXiv 2501.00210 (abstract)", *memory = "unverified figure of the same paper",
             *community = "community roofline note";
  std::vector<PublishedRow> rows;
  const TargetDesc& target = g2();
  double vectorPeak = target.tpcPeakTflops(target.clock(), kBf16) * 1e3;
  auto stream = [&](const StreamKernel& kernel, double gflops) {
    double bytes = 2.0 * (kernel.loads + 1);
    rows.push_back({std::string("gaudi2 stream ") + kernel.name + ", HBM", "GFLOP/s", gflops,
                    streamGflops(target, kernel, true),
                    std::min(vectorPeak, target.hbmBytesPerNs / bytes * kernel.flops), 0.10, false, memory});
  };
  stream(add, 330);
  stream(scale, 530);
  stream(triad, 670);
  for (const StreamKernel& kernel : {add, scale, triad})
    rows.push_back({std::string("gaudi2 ") + kernel.name + " in registers, of vector peak", "%",
                    kernel.flops == 2 ? 99.0 : 50.0, 100 * streamGflops(target, kernel, false) / vectorPeak, 100, 0.03,
                    true, summary});
  rows.push_back({"gaudi2 TPCs that saturate HBM (ADD), middle of 11 to 15", "TPCs", 13,
                  static_cast<double>(saturatingTpcs(add)), 0, 0.20, false, memory});
  auto gemv = [&](const char* what, int64_t k, int64_t n, double tbps, bool gated, const char* source) {
    GemmShape shape = gemm(1, k, n, kBf16);
    double bytes = static_cast<double>(perfmodel::gemmBytes(shape).hbm), flops = perfmodel::gemmFlops(shape);
    rows.push_back({what, "TB/s", tbps, predictTflops(target, target.clock(), shape) * bytes / flops,
                    rooflineTflops(target, target.clock(), shape) * bytes / flops, 0.10, gated, source});
  };
  gemv("gaudi2 GEMV of an LM head (1x8192x128256 bf16)", 8192, 128256, 2.28, true, community);
  gemv("gaudi2 small GEMV (size not published: 1x4096x4096)", 4096, 4096, 1.17, false, community);
  auto gather = [&](const char* what, int64_t vectorBytes, double percent) {
    // Whole 256-byte accesses move, of which vectorBytes are wanted.
    constexpr int64_t rowsRead = 1 << 22;
    perfmodel::TpcWork work;
    work.points = rowsRead;
    work.loads = work.stores = work.vectorOps = 1;
    double moved = static_cast<double>(rowsRead) * static_cast<double>(target.tpcVectorBytes);
    perfmodel::Cost cost = tpcCost(target, target.clock(), work, {static_cast<int64_t>(moved), 0});
    double wanted = static_cast<double>(rowsRead * vectorBytes);
    rows.push_back({what, "%", percent, 100 * wanted / static_cast<double>(cost.alone) * 1e3 / target.hbmBytesPerNs,
                    100, 0.5, false, summary});
  };
  gather("gaudi2 gather of 256-byte vectors, of HBM rate", 256, 64);
  gather("gaudi2 gather of 64-byte vectors, of HBM rate", 64, 15);
  return rows;
}

std::vector<PublishedRow> specifications() {
  std::vector<PublishedRow> rows;
  auto spec = [&](const char* what, const char* unit, double published, double model, double tolerance,
                  const char* source) { rows.push_back({what, unit, published, model, 0, tolerance, true, source}); };
  const char *wp1 = "Hot Chips 2024 table", *wp2 = "Gaudi 2 white paper", *wp3 = "Gaudi 3 white paper",
             *hal = "vendor's open planner (HAL)", *lib = "vendor's open MME library";
  auto peak = [](const TargetDesc& t, const char* clock, ElementType type) {
    return t.mmePeakTflops(t.clock(clock), type);
  };
  auto vector = [](const TargetDesc& t, const char* clock, ElementType type) {
    return t.tpcPeakTflops(t.clock(clock), type);
  };
  spec("gaudi1 MME bf16", "TFLOP/s", 60, peak(g1(), "datasheet", kBf16), 0.02, wp1);
  spec("gaudi1 MME f32, best measured row", "TFLOP/s", 14.42, peak(g1(), "datasheet", kF32), 0.03, hal);
  spec("gaudi2 MME bf16", "TFLOP/s", 432, peak(g2(), "datasheet", kBf16), 0.005, wp2);
  spec("gaudi2 MME fp8", "TFLOP/s", 865, peak(g2(), "datasheet", kFp8), 0.005, wp2);
  spec("gaudi3 MME bf16", "TFLOP/s", 1835, peak(g3(), "datasheet", kBf16), 0.005, wp3);
  spec("gaudi3 MME fp8", "TFLOP/s", 1835, peak(g3(), "datasheet", kFp8), 0.005, wp3);
  spec("gaudi3 MME f16", "TFLOP/s", 459, peak(g3(), "datasheet", kF16), 0.005, wp3);
  spec("gaudi3 MME f32", "TFLOP/s", 229, peak(g3(), "datasheet", kF32), 0.005, wp3);
  spec("gaudi3 MME bf16, shipping clock", "TFLOP/s", 1677, peak(g3(), "shipping", kBf16), 0.005, lib);
  spec("gaudi2 vector bf16", "TFLOP/s", 11, vector(g2(), "datasheet", kBf16), 0.01, wp3);
  spec("gaudi3 vector bf16", "TFLOP/s", 28.7, vector(g3(), "datasheet", kBf16), 0.005, wp3);
  spec("gaudi3 vector f32", "TFLOP/s", 14.3, vector(g3(), "datasheet", kF32), 0.005, wp3);
  spec("gaudi3 vector fp8", "TFLOP/s", 57.3, vector(g3(), "datasheet", kFp8), 0.005, wp3);
  auto sustained = [](const TargetDesc& t) { return t.hbmBytesPerNs * t.hbmEfficiency; };
  constexpr double gib = 1.073741824;
  spec("gaudi1 HBM, planner's rate", "GB/s", 950, sustained(g1()), 0.005, hal);
  spec("gaudi2 HBM", "GB/s", 2460, g2().hbmBytesPerNs, 0.005, wp2);
  spec("gaudi2 HBM, planner's rate (1945 GiB/s)", "GB/s", 1945 * gib, sustained(g2()), 0.005, hal);
  spec("gaudi3 HBM", "GB/s", 3670, g3().hbmBytesPerNs, 0.01, wp3);
  spec("gaudi3 HBM, planner's rate (2918 GiB/s)", "GB/s", 2918 * gib, sustained(g3()), 0.005, hal);
  spec("gaudi1 SRAM", "GB/s", 1045, g1().sramBytesPerNs, 0.005, hal);
  spec("gaudi2 SRAM", "GB/s", 6554, g2().sramBytesPerNs, 0.005, hal);
  spec("gaudi3 L2", "GB/s", 12800, g3().sramBytesPerNs, 0.005, wp3);
  spec("gaudi1 DMA", "GB/s", 894, g1().dmaBytesPerNs, 0.005, hal);
  spec("gaudi2 DMA", "GB/s", 970, g2().dmaBytesPerNs, 0.005, hal);
  auto mib = [](int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  spec("gaudi2 SRAM", "MB", 48, mib(g2().sramBytes), 0.001, hal);
  spec("gaudi3 L2", "MB", 96, mib(g3().sramBytes), 0.001, wp3);
  return rows;
}

std::vector<PublishedRow> arrangements() {
  struct Case {
    const TargetDesc& target;
    const char* geometry;
    GemmShape shape;
    double utilization;
  };
  const Case cases[] = {
      {g3(), "2xw", gemm(1000, 4096, 1000, kBf16), 125.0 * 125 / (128 * 128)},
      {g3(), "2xw", gemm(1024, 4096, 1024, kBf16), 1},
      {g3(), "2xw", gemm(1024, 4096, 1025, kBf16), 1025.0 / 2048},
      {g2(), "4xw", gemm(1536, 4096, 1024, kBf16), 12.0 / 13},
      {g2(), "4xh", gemm(1024, 256, 128, kBf16), 0.5},
  };
  std::vector<PublishedRow> rows;
  for (const Case& c : cases) {
    perfmodel::GemmPlan plan;
    for (const arch::MmeGeometry& geometry : c.target.mmeGeometries)
      if (geometry.name == c.geometry) gemmPlanFor(c.target, c.shape, geometry, plan);
    double steps = plan.steps + plan.constrainedSteps;
    PublishedRow row;
    row.what = std::string(c.target.name) + " " + c.geometry + ", " + std::to_string(c.shape.m) + "x" +
               std::to_string(c.shape.k) + "x" + std::to_string(c.shape.n) + ": array in use";
    row.unit = "%";
    row.published = 100 * c.utilization;
    row.model = 100 * plan.idealCycles / (steps * plan.kCycles);
    row.roofline = 100;
    row.tolerance = 1e-9;
    row.gated = true;
    row.source = "vendor's open planner tests";
    rows.push_back(row);
  }
  return rows;
}

}  // namespace hpu::benchmarks
