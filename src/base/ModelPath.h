// SPDX-License-Identifier: Apache-2.0
// What kind of model a file is, by its name; all that reads models goes by this.
#pragma once

#include <string_view>

namespace hpu::base {

/// MLIR text or bytecode.
inline bool isMlirPath(std::string_view path) {
  return path.ends_with(".mlir") || path.ends_with(".mlirbc");
}

/// MLIR or ONNX.
inline bool isModelPath(std::string_view path) {
  return path.ends_with(".onnx") || isMlirPath(path);
}

}  // namespace hpu::base
