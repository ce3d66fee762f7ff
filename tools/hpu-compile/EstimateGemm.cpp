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

/// "bf16", "f32" ...; "fp8" and every name of an E4M3 format are the E4M3 of the target.
ElementType parseElement(const std::string& name, const arch::TargetDesc& target) {
  ElementType element = ElementType::kInvalid;
  for (int i = 1; i <= static_cast<int>(ElementType::kF8E4M3Ieee); ++i)
    if (name == elementTypeName(static_cast<ElementType>(i))) element = static_cast<ElementType>(i);
  if (name == "fp8" || name == "f8") element = ElementType::kF8E4M3;
  if (name == "fp16") element = ElementType::kF16;
  if (name == "fp32" || name == "float") element = ElementType::kF32;
  if (name == "int8") element = ElementType::kI8;
  bool isE4m3 = element == ElementType::kF8E4M3 || element == ElementType::kF8E4M3Ieee;
  return isE4m3 && target.e4m3Type != ElementType::kInvalid ? target.e4m3Type : element;
}

StatusOr<ElementType> elementFor(const arch::TargetDesc& target, const std::string& name) {
  ElementType element = parseElement(name, target);
  if (target.hasMmeType(element)) return element;
  std::string list = target.mmeTypeNames();
  if (element == ElementType::kInvalid)
    return invalidArgument("'" + name + "' is not an element type; the MME of " + std::string(target.name) +
                           " multiplies " + list);
  return unimplemented("the MME of " + std::string(target.name) + " does not multiply " + name + "; it multiplies " +
                       list);
}

}  // namespace

StatusOr<ExitCode> estimateGemm(Tool& tool, const std::string& text, Target target, const std::string& clockName) {
  size_t colon = text.find(':');
  std::string dims = text.substr(0, colon), dtype = colon == std::string::npos ? "bf16" : text.substr(colon + 1);
  StatusOr<Shape> shape = parseShape(dims);
  if (!shape.ok() || (shape->size() != 3 && shape->size() != 4))
    return invalidArgument("--estimate-gemm " + text + " is not [BATCHx]MxKxN:dtype, for example 4096x4096x4096:bf16");
  const arch::TargetDesc& desc = arch::targetDesc(target);
  perfmodel::GemmShape gemm;
  HPU_ASSIGN(gemm.type, elementFor(desc, dtype));
  for (int64_t dim : *shape)
    if (dim < 1 || dim > (1 << 24)) return invalidArgument("--estimate-gemm " + text + ": sizes are 1 to 16777216");
  if (shape->size() == 4) {
    gemm.batch = shape->front();
    shape->erase(shape->begin());
  }
  gemm.m = (*shape)[0];
  gemm.k = (*shape)[1];
  gemm.n = (*shape)[2];
  std::string profile = clockName;
  if (profile.empty()) {
    HPU_ASSIGN(profile, settings::getString(Setting::HPU_SIM_CLOCK));
  }
  HPU_ASSIGN(arch::ClockProfile clock, desc.findClock(profile));
  perfmodel::Cost cost = perfmodel::gemmCost(desc, clock, gemm, perfmodel::gemmBytes(gemm));
  if (cost.alone >= perfmodel::kLongestCommand)
    return outOfRange("--estimate-gemm " + text + ": more than 1000 s of device time");
  double us = static_cast<double>(cost.alone) / 1e6;
  double flops = perfmodel::gemmFlops(gemm);
  double tflops = flops / static_cast<double>(cost.alone);
  double peak = desc.mmePeakTflops(clock, gemm.type);
  char line[200];
  snprintf(line, sizeof line, "%s %s (%s): %.2f us, %.1f TFLOPS of %.1f (%.1f %%), bound by %s", text.c_str(),
           std::string(targetName(target)).c_str(), std::string(clock.name).c_str(), us, tflops, peak,
           100 * tflops / peak, std::string(cost.bound).c_str());
  tool.printAlways(line);
  Json& json = tool.json();
  json.set("target", targetName(target)).set("clock", clock.name);
  json.set("dtype", elementTypeName(gemm.type));
  json.set("tflops", tflops).set("time_us", us).set("peak_tflops", peak).set("bound", cost.bound);
  json.set("hbm_bytes", cost.bytes.hbm).set("time_ps", cost.alone);
  for (int i = 0; i < perfmodel::kNumTerms; ++i) {
    std::string_view name = perfmodel::termName(static_cast<perfmodel::Term>(i));
    double term = static_cast<double>(cost.terms[i]) / 1e6;
    json["terms"].set(name, term);
    json["terms_ps"].set(name, cost.terms[i]);
    if (cost.terms[i] == 0) continue;
    snprintf(line, sizeof line, "  %-18s %10.3f us  %5.1f %%", std::string(name).c_str(), term, 100 * term / us);
    tool.print(line);
  }
  return ExitCode::kOk;
}

}  // namespace hpu::tools
