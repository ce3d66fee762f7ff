// SPDX-License-Identifier: Apache-2.0
// CompileFlags: the options of compilation that hpu-compile, hpu-run and hpu-verify share, and
// their reading into hpu::CompileOptions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "hpu/compiler.h"
#include "tools/common/Cli.h"

namespace hpu::tools {

struct CompileFlags {
  std::string target = "gaudi2";
  std::string precision = "f32";
  std::vector<std::string> keepF32, shapes, dims, specialize, states;
  int optLevel = 2;
  int searchEffort = 100;
  int unrollLimit = 1024;
  std::vector<std::string> plugins;
  std::string cacheDir, cpu, calibrate;

  /// Adds --target, --precision, --keep-f32, --shape, --dim, --specialize, -O, --search-effort, --unroll-limit,
  /// --cache, --cpu and
  /// --calibrate (which Calibrate.h carries out).
  void addTo(CommandLine& line);
  /// Notes the default target on stderr. Errors: kInvalidArgument naming the option and its value.
  StatusOr<CompileOptions> options(Tool& tool) const;
};

/// The variants of --specialize: "seq=128,512" are two, "batch=1,seq=128" is one, "batch=1,4,seq=128,512" are four:
/// each size of a dimension with each of the others. Errors: kInvalidArgument.
StatusOr<std::vector<std::map<std::string, int64_t>>> parseSpecialize(const std::string& text);

/// A table of unsupported nodes for people (the JSON list is in CompileFigures.h).
std::string unsupportedTable(const std::vector<UnsupportedNode>& nodes);
/// Of each: domain and opset, what it reads and makes, and what would help; lines that begin with a newline.
std::string unsupportedDetails(const std::vector<UnsupportedNode>& nodes);

/// "resnet18" for "/models/resnet18.onnx".
std::string stemOf(const std::string& path);

}  // namespace hpu::tools
