// SPDX-License-Identifier: Apache-2.0
// Fixtures of tests of the importer: a model that OnnxBuilder writes, imported, and what the module computes.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/GraphImpl.h"
#include "compiler/import/Importer.h"
#include "compiler/interp/Interpreter.h"
#include "tests/unit/base/TemporaryFolder.h"
#include "tests/unit/compiler/import/OnnxBuilder.h"

namespace hpu::importer {

class Importer : public ::testing::Test {
 protected:
  StatusOr<OwningModule> import(const OnnxBuilder& builder, const ImportOptions& options = {}) {
    return importOnnxModule(*context_, builder.save(folder_.file("model.onnx")), options, &unsupported_);
  }

  static std::string text(OwningModule& module) {
    std::string out;
    llvm::raw_string_ostream stream(out);
    module->print(stream);
    return out;
  }

  static mlir::func::FuncOp main(OwningModule& module) { return module->lookupSymbol<mlir::func::FuncOp>("main"); }

  /// "hpu.relu hpu.add" without constants and the return.
  static std::string opNames(OwningModule& module) {
    std::string names;
    for (mlir::Operation& op : main(module).getBody().front().without_terminator())
      if (op.getName().getStringRef() != "hpu.constant")
        names += (names.empty() ? "" : " ") + op.getName().getStringRef().str();
    return names;
  }

  static std::string resultType(OwningModule& module) {
    std::string out;
    llvm::raw_string_ostream stream(out);
    stream << main(module).getResultTypes()[0];
    return out;
  }

  base::TemporaryFolder folder_;
  std::shared_ptr<mlir::MLIRContext> context_ = makeContext();
  std::vector<UnsupportedNode> unsupported_;
};

/// The results of a model of one input with values.
class Computes : public Importer {
 protected:
  StatusOr<std::vector<interp::Tensor>> run(const OnnxBuilder& builder, const std::vector<interp::Tensor>& inputs) {
    auto module = import(builder);
    if (!module.ok()) return module.status();
    return interp::evaluateFunction(main(*module), inputs);
  }
  /// The elements of the first result.
  std::vector<float> floats(const OnnxBuilder& builder, const std::vector<interp::Tensor>& inputs) {
    auto outputs = run(builder, inputs);
    EXPECT_TRUE(outputs.ok()) << outputs.status().message();
    if (!outputs.ok()) return {};
    const float* data = (*outputs)[0].as<float>();
    return {data, data + (*outputs)[0].count()};
  }
  static interp::Tensor counting(const Shape& shape, float from = 0) {
    std::vector<float> values(static_cast<size_t>(numElements(shape)));
    for (size_t i = 0; i < values.size(); ++i) values[i] = from + static_cast<float>(i);
    return interp::Tensor::of<float>(ElementType::kF32, shape, values);
  }
};

}  // namespace hpu::importer
