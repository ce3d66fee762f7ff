// SPDX-License-Identifier: Apache-2.0
#include "tools/common/CompileFlags.h"

#include <algorithm>
#include <filesystem>

#include "base/Clip.h"
#include "base/Format.h"
#include "base/OptionNames.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "recipe/Recipe.h"
#include "tools/common/HostTensor.h"
#include "tools/common/Terminal.h"

namespace hpu::tools {

void CompileFlags::addTo(CommandLine& line) {
  line.addChoice("--target", target, {"gaudi1", "gaudi2", "gaudi3"}, "The chip to compile for");
  line.addChoice("--precision", precision, {"f32", "bf16", "f16", "fp8", "fp8_e5m2"},
                 "Number format of the compiled model; fp8: of matrix products, the rest is bf16");
  line.addOption("--keep-f32", keepF32,
                 "Ops and nodes that keep f32, beside the default list: OP,NODE; may be repeated");
  line.addOption("--calibrate", calibrate,
                 "fp8: measure the ranges of activations on the data sets in this folder (else they are "
                 "computed at run time)");
  line.addOption("--shape", shapes, "Size of an input: NAME=1x3x224x224; may be repeated");
  line.addOption("--dim", dims, "Size of a named free dimension: NAME=8, or its bounds: NAME=1:512; may be repeated");
  line.addOption(
      "--state", states,
      "An output that is an input changed in place in device memory (a KV cache): OUTPUT=INPUT; a '*' in both "
      "stands for the same text; may be repeated");
  line.addOption("--specialize", specialize,
                 "Variants for these sizes of dimensions with bounds: NAME=128,512 or A=1,B=128; may be repeated");
  line.addOption("-O", optLevel, "Optimisation: 0 one op a unit, 1 fusion, 2 layouts and slices, 3 wider search");
  line.addOption("--search-effort", searchEffort,
                 "How long to look for better slices of units, in percent of what is usual (0 to 1000)");
  line.addOption("--unroll-limit", unrollLimit,
                 "Ops up to which loops are unrolled; of more they run on the device (0 to 8192, default 1024)");
  line.addOption("--plugin", plugins, "A file of custom ops (MLIR), for nodes of other domains; may be repeated");
  line.addOption("--cache", cacheDir,
                 "Folder in which recipes are kept and found again by content and options (default: HPU_CACHE)");
  line.addOption("--cpu", cpu, "'native': kernel images for this CPU only (smaller recipes)");
}

StatusOr<std::vector<std::map<std::string, int64_t>>> parseSpecialize(const std::string& text) {
  // Sizes by dimension, in the order of the text.
  std::vector<std::pair<std::string, std::vector<int64_t>>> dims;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    std::string size = text.substr(begin, end - begin);
    begin = end + 1;
    if (size.find('=') != std::string::npos) {
      HPU_ASSIGN(auto pair, splitAssignment(size, "--specialize"));
      for (const auto& [name, sizes] : dims)
        if (name == pair.first)
          return invalidArgument("--specialize " + text + ": '" + name +
                                 "' is named twice; its sizes follow one another: " + name + "=128,512");
      dims.push_back({pair.first, {}});
      size = pair.second;
    }
    StatusOr<int64_t> value = base::parseInt(size);
    if (dims.empty() || !value.ok() || *value < 0)
      return invalidArgument("--specialize " + text + ": '" + size + "' is not NAME=SIZE or another size");
    dims.back().second.push_back(*value);
  }
  std::vector<std::map<std::string, int64_t>> variants(1);
  for (const auto& [name, sizes] : dims) {
    std::vector<std::map<std::string, int64_t>> longer;
    for (const auto& variant : variants)
      for (int64_t size : sizes) {
        longer.push_back(variant);
        longer.back()[name] = size;
      }
    variants = std::move(longer);
    if (variants.size() > recipe::kMaxVariants)
      return invalidArgument("--specialize " + text + " asks for more than " + std::to_string(recipe::kMaxVariants) +
                             " variants: one for each combination of its sizes");
  }
  return variants;
}

StatusOr<CompileOptions> CompileFlags::options(Tool& tool) const {
  CompileOptions options;
  HPU_ASSIGN(options.target, parseTarget(target));
  if (!tool.given("--target")) tool.note("compiling for " + target + " (--target chooses another)");
  HPU_ASSIGN(options.precision, parsePrecision(precision));
  for (const std::string& list : keepF32) {
    if (list.empty()) return invalidArgument("--keep-f32 '' names no op and no node");
    for (size_t begin = 0; begin <= list.size();) {
      size_t end = std::min(list.find(',', begin), list.size());
      if (end > begin) options.keepF32.push_back(list.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  if (optLevel < 0 || optLevel > 3)
    return invalidArgument("-O" + std::to_string(optLevel) + " is not one of -O0 to -O3");
  options.optLevel = optLevel;
  options.searchEffort = searchEffort;
  options.unrollLimit = unrollLimit;
  options.plugins = plugins;
  for (const std::string& text : shapes) {
    HPU_ASSIGN(auto pair, splitAssignment(text, "--shape"));
    if (options.shapes.count(pair.first)) return invalidArgument("--shape " + pair.first + " is given twice");
    HPU_ASSIGN(options.shapes[pair.first], parseShape(pair.second));
  }
  for (const std::string& text : dims) {
    HPU_ASSIGN(auto pair, splitAssignment(text, "--dim"));
    if (const size_t colon = pair.second.find(':'); colon != std::string::npos) {
      StatusOr<int64_t> min = base::parseInt(pair.second.substr(0, colon)),
                        max = base::parseInt(pair.second.substr(colon + 1));
      if (!min.ok() || !max.ok() || *max < *min)
        return invalidArgument("--dim " + text + ": '" + pair.second + "' is not LEAST:MOST");
      if (options.dims.count(pair.first) || !options.dimBounds.emplace(pair.first, DimBounds{*min, *max}).second)
        return invalidArgument("--dim " + pair.first + " is given twice");
      continue;
    }
    StatusOr<int64_t> size = base::parseInt(pair.second);
    // Values of inputs may be below 0; the compiler knows which these are.
    if (!size.ok()) return invalidArgument("--dim " + text + ": '" + pair.second + "' is not a size");
    if (options.dimBounds.count(pair.first) || !options.dims.emplace(pair.first, *size).second)
      return invalidArgument("--dim " + pair.first + " is given twice");
  }
  for (const std::string& text : states) {
    HPU_ASSIGN(auto pair, splitAssignment(text, "--state"));
    if (!options.states.emplace(pair.first, pair.second).second)
      return invalidArgument("--state " + pair.first + " is given twice");
  }
  for (const std::string& text : specialize) {
    HPU_ASSIGN(auto variants, parseSpecialize(text));
    options.specialize.insert(options.specialize.end(), variants.begin(), variants.end());
  }
  options.cacheDir = cacheDir;
  if (cacheDir.empty() && !tool.given("--cache")) {
    HPU_ASSIGN(options.cacheDir, settings::getString(Setting::HPU_CACHE));
  }
  options.cpu = cpu;
  return options;
}

std::string unsupportedTable(const std::vector<UnsupportedNode>& nodes) {
  Table table({Column::name("op"), Column::name("node"), Column::text("reason")});
  constexpr size_t kMostRows = 200;
  for (size_t i = 0; i < std::min(nodes.size(), kMostRows); ++i)
    table.row({base::clipped(nodes[i].op), base::clipped(nodes[i].node),
               base::clipped(base::inWordsOf(base::Reader::kCommandLine, nodes[i].reason))});
  if (nodes.size() > kMostRows) table.row({"...", base::strCat("and ", nodes.size() - kMostRows, " more"), ""});
  return table.text(outputWidth(2));
}

std::string unsupportedDetails(const std::vector<UnsupportedNode>& nodes) {
  // A terminal is no place for more; the table names all.
  static constexpr size_t kMostBytes = 8 << 10, kMostValues = 16;
  const auto list = [](const std::vector<UnsupportedNode::Value>& values) {
    std::string text;
    for (size_t i = 0; i < std::min(values.size(), kMostValues); ++i) {
      const std::string& name = values[i].name;
      text += (i ? ", " : "") + (name.empty() ? "" : base::clipped(name) + ": ") +
              (values[i].type.empty() ? "?" : values[i].type);
    }
    if (values.size() > kMostValues) text += base::strCat(", and ", values.size() - kMostValues, " more");
    return text.empty() ? "none" : text;
  };
  std::string text;
  size_t told = 0;
  for (; told < nodes.size() && text.size() < kMostBytes; ++told) {
    const UnsupportedNode& node = nodes[told];
    const bool isPart = node.op == "input" || node.op == "initializer" || node.op == "model";
    text += base::strCat("\n  ", base::clipped(node.op), " '", base::clipped(node.node), "'");
    if (!isPart) {
      text += base::strCat(" (domain ", node.domain.empty() ? "ai.onnx" : base::clipped(node.domain),
                           node.opset ? base::strCat(", opset ", node.opset) : "", ")");
      text += base::strCat("\n    inputs:  ", list(node.inputs), "\n    outputs: ", list(node.outputs));
    } else if (!node.outputs.empty()) {
      text += "\n    type: " + list(node.outputs);
    }
    if (!node.help.empty()) text += "\n    help: " + base::inWordsOf(base::Reader::kCommandLine, node.help);
  }
  if (told < nodes.size()) text += base::strCat("\n  and ", nodes.size() - told, " more (all with --json)");
  return text;
}

std::string stemOf(const std::string& path) {
  return std::filesystem::path(path).stem().string();
}

}  // namespace hpu::tools
