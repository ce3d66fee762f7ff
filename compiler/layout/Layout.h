// SPDX-License-Identifier: Apache-2.0
// The phase layout: gives every unit's results a physical order and inserts the copies that remain.
#pragma once

#include <memory>
#include <string>

namespace mlir {
class Pass;
}

namespace hpu::layout {

struct LayoutOptions {
  bool optimize = true;            ///< false: everything row-major (-O0).
  std::string* report = nullptr;   ///< A line for each copy kept and why.
  std::string* summary = nullptr;  ///< "3 relayouts kept, 31 transposes folded".
};

std::unique_ptr<mlir::Pass> createLayoutPass(LayoutOptions options);
/// Post-condition: every operand of a unit resolves to a strided view; results of the function are dense,
/// row-major, and each a unit's own.
std::unique_ptr<mlir::Pass> createVerifyLayoutPass();

}  // namespace hpu::layout
