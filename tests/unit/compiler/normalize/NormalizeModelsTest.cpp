// SPDX-License-Identifier: Apache-2.0
// normalize and precision keep what models compute: the reference interpreter runs each model after the
// passes against the numbers that PyTorch wrote. HPU_MODELS_DIR adds a folder of exported models
// (tests/models/export_models.py) to the digits model, HPU_MODELS_FILTER a part of their names.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/import/Importer.h"
#include "compiler/interp/Interpreter.h"
#include "compiler/normalize/Passes.h"
#include "compiler/precision/Precision.h"
#include "mlir/Pass/PassManager.h"
#include "tools/common/Compare.h"
#include "tools/common/Inputs.h"
#include "tools/common/TensorProtoIo.h"

namespace {

namespace fs = std::filesystem;
using hpu::tools::HostTensor;

struct Model {
  std::string name, onnx, data, bf16;
};

std::vector<Model> models() {
  fs::path digits = fs::path(getenv("HPU_SOURCE_DIR") ? getenv("HPU_SOURCE_DIR") : ".") / "tests/models/digits";
  std::vector<Model> list = {
      {"digits", digits / "model.onnx", digits / "test_data_set_0", digits / "output_0_bf16.pb"}};
  const char* folder = getenv("HPU_MODELS_DIR");
  const char* filter = getenv("HPU_MODELS_FILTER");
  if (folder)
    for (const auto& entry : fs::directory_iterator(folder)) {
      std::string name = entry.path().filename().string();
      if (fs::exists(entry.path() / "model.onnx") && (!filter || name.find(filter) != std::string::npos))
        list.push_back(
            {name, entry.path() / "model.onnx", entry.path() / "test_data_set_0", entry.path() / "output_0_bf16.pb"});
    }
  return list;
}

HostTensor toHost(const hpu::interp::Tensor& tensor) {
  HostTensor host;
  host.type = tensor.type();
  host.bytes.assign(tensor.data(), tensor.data() + tensor.bytes());
  return host;
}

class NormalizeModels : public ::testing::TestWithParam<Model> {
 protected:
  /// Imports with the sizes of the data, runs the passes, interprets; the first output.
  void run(const std::function<void(mlir::OpPassManager&)>& addPasses) {
    auto sets = hpu::tools::readDataSets(GetParam().data);
    ASSERT_TRUE(sets.ok()) << sets.status().message();
    hpu::importer::registerDialects(context_);
    hpu::importer::ImportOptions options;
    for (const HostTensor& input : sets->front().inputs) options.shapes[input.name] = input.type.shape;
    auto imported = hpu::importer::importOnnxModule(context_, GetParam().onnx, options);
    ASSERT_TRUE(imported.ok()) << imported.status().message();
    module_ = std::move(*imported);
    mlir::PassManager manager(&context_);
    addPasses(manager.nest<mlir::func::FuncOp>());
    auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(mlir::succeeded(manager.run(*module_)));
    double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    std::vector<hpu::interp::Tensor> inputs;
    for (const HostTensor& input : sets->front().inputs)
      inputs.push_back(hpu::interp::Tensor::copyOf(input.type, input.bytes.data()));
    auto outputs = hpu::interp::evaluateFunction(main(), inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    output_ = toHost(outputs->front());
    expected_ = sets->front().outputs.front();
    printf("%s: passes %.1f ms\n", GetParam().name.c_str(), ms);
  }
  mlir::func::FuncOp main() { return module_->lookupSymbol<mlir::func::FuncOp>("main"); }
  std::map<std::string, int> opCounts() {
    std::map<std::string, int> counts;
    main().walk([&](hpu::ir::HpuOp op) { ++counts[op->getName().stripDialect().str()]; });
    return counts;
  }

  mlir::MLIRContext context_;
  hpu::importer::OwningModule module_;
  HostTensor output_, expected_;
};

TEST_P(NormalizeModels, KeepTheirResultsAndLoseTheirBatchNorms) {
  std::string summary;
  run([&](mlir::OpPassManager& pm) { hpu::normalize::addNormalizePasses(pm, {.summary = &summary}); });
  if (HasFatalFailure()) return;
  auto result = hpu::tools::compare(output_, expected_, {1e-4, 1e-5});
  printf("%s: %s; %s\n", GetParam().name.c_str(), summary.c_str(), hpu::tools::toText(result).c_str());
  std::string counts;
  for (auto& [name, count] : opCounts()) counts += name + " " + std::to_string(count) + ", ";
  printf("  %s\n", counts.c_str());
  EXPECT_TRUE(result.passed);
  EXPECT_EQ(opCounts()["batch_norm"], 0);
  EXPECT_EQ(opCounts()["erf"], 0) << "a gelu was not recognised";
  EXPECT_EQ(opCounts()["pow"], 0);
}

TEST_P(NormalizeModels, InBf16AreAsExactAsPyTorchs) {
  if (!fs::exists(GetParam().bf16)) GTEST_SKIP() << "no bf16 reference";
  std::string summary;
  run([&](mlir::OpPassManager& pm) {
    hpu::normalize::addNormalizePasses(pm);
    hpu::precision::addPrecisionPasses(pm, {.precision = hpu::Precision::kBF16, .summary = &summary});
  });
  if (HasFatalFailure()) return;
  auto reference = hpu::tools::readTensorProto(GetParam().bf16);
  ASSERT_TRUE(reference.ok()) << reference.status().message();
  double ours = hpu::tools::compare(output_, expected_, {}).rmsRatio;
  double theirs = hpu::tools::compare(hpu::tools::widened(*reference), expected_, {}).rmsRatio;
  printf("%s: %s; rms error %.3g, PyTorch's %.3g, ratio %.2f\n", GetParam().name.c_str(), summary.c_str(), ours, theirs,
         ours / theirs);
  // The interpreter rounds after each op, as PyTorch does and the device does not.
  EXPECT_LE(ours, 1.25 * theirs);
}

INSTANTIATE_TEST_SUITE_P(All, NormalizeModels, ::testing::ValuesIn(models()), [](const auto& info) {
  std::string name = info.param.name;
  std::replace_if(name.begin(), name.end(), [](char c) { return !isalnum(c); }, '_');
  return name;
});

}  // namespace
