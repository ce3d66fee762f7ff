// SPDX-License-Identifier: Apache-2.0
#include "tools/hpu-compile/EstimateGemm.h"

#include <cstdio>

#include "base/Format.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "perfmodel/EngineCost.h"
#include "tools/common/HostTensor.h"

namespace hpu::tools {
namespace {

/// "bf16", "f32" ... and "fp8" for the e4m3 format.
StatusOr<ElementType> parseElement(const std::string& name) {
  for (int i = 1; i <= static_cast<int>(ElementType::kF64); ++i)
    if (name == elementTypeName(static_cast<ElementType>(i)) &&
        isFloatingPoint(static_cast<ElementType>(i)))
      return static_cast<ElementType>(i);
  if (name == "fp8") return ElementType::kF8E4M3;
  if (name == "fp16") return ElementType::kF16;
  if (name == "fp32") return ElementType::kF32;
  return invalidArgument("'" + name + "' is not an element type such as f32, bf16, f16 or fp8");
}

}  // namespace

StatusOr<ExitCode> estimateGemm(Tool& tool, const std::string& text, Target target) {
  size_t colon = text.find(':');
  std::string dims = text.substr(0, colon),
              dtype = colon == std::string::npos ? "bf16" : text.substr(colon + 1);
  StatusOr<Shape> shape = parseShape(dims);
  if (!shape.ok() || shape->size() != 3)
    return invalidArgument("--estimate-gemm " + text +
                           " is not MxKxN:dtype, for example 4096x4096x4096:bf16");
  HPU_ASSIGN(ElementType element, parseElement(dtype));
  int64_t m = (*shape)[0], k = (*shape)[1], n = (*shape)[2];
  for (int64_t dim : {m, k, n})
    if (dim < 1 || dim > (1 << 24))
      return invalidArgument("--estimate-gemm " + text + ": sizes are 1 to 16777216");
  const arch::TargetDesc& desc = arch::targetDesc(target);
  HPU_ASSIGN(std::string profile, settings::getString(Setting::HPU_SIM_CLOCK));
  HPU_ASSIGN(arch::ClockProfile clock, desc.findClock(profile));
  perfmodel::GemmShape gemm;
  gemm.m = m;
  gemm.k = k;
  gemm.n = n;
  gemm.type = element;
  perfmodel::Bytes bytes;
  bytes.hbm = (m * k + k * n + m * n) * elementSize(element);
  perfmodel::Cost cost = perfmodel::gemmCost(desc, clock, gemm, bytes);
  double us = static_cast<double>(cost.alone) / 1e6;
  double flops = 2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
  double tflops = flops / static_cast<double>(cost.alone);
  double peak = desc.mmePeakTflops(clock, element);
  char line[200];
  snprintf(line, sizeof line, "%s %s: %.2f us, %.1f TFLOPS of %.1f (%.1f %%), bound by %s",
           text.c_str(), std::string(targetName(target)).c_str(), us, tflops, peak,
           100 * tflops / peak, std::string(cost.bound).c_str());
  tool.printAlways(line);
  Json& json = tool.json();
  json.set("target", targetName(target)).set("clock", clock.name);
  json.set("tflops", tflops).set("time_us", us).set("peak_tflops", peak).set("bound", cost.bound);
  for (int i = 0; i < perfmodel::kNumTerms; ++i) {
    std::string_view name = perfmodel::termName(static_cast<perfmodel::Term>(i));
    double term = static_cast<double>(cost.terms[i]) / 1e6;
    json["terms"].set(name, term);
    if (cost.terms[i] == 0) continue;
    snprintf(line, sizeof line, "  %-18s %10.3f us  %5.1f %%", std::string(name).c_str(), term,
             100 * term / us);
    tool.print(line);
  }
  return ExitCode::kOk;
}

}  // namespace hpu::tools
