// SPDX-License-Identifier: Apache-2.0
// The trained digits model through every folder: compiled for every target and level, run on the simulated device,
// compared with PyTorch's logits.
#include <gtest/gtest.h>

#include <cstdlib>

#include "hpu/compiler.h"
#include "hpu/device.h"
#include "hpu/executable.h"
#include "hpu/stream.h"
#include "tools/common/Compare.h"
#include "tools/common/TensorProtoIo.h"

namespace hpu {
namespace {

std::string digits(const std::string& file) {
  return std::string(std::getenv("HPU_SOURCE_DIR")) + "/tests/models/digits/" + file;
}

/// Logits of all hold-out images, computed on a simulated device.
StatusOr<tools::HostTensor> run(const Recipe& recipe, const tools::HostTensor& images) {
  DeviceOptions options;
  options.target = recipe.target();
  auto device = Device::open(options);
  if (!device.ok()) return device.status();
  auto stream = Stream::create(*device);
  auto executable = Executable::load(*device, recipe);
  if (!executable.ok()) return executable.status();
  auto in = device->allocate(recipe.inputs()[0].type.bytes()), out = device->allocate(recipe.outputs()[0].type.bytes());
  if (!in.ok()) return in.status();
  if (!out.ok()) return out.status();
  tools::HostTensor logits;
  logits.type = recipe.outputs()[0].type;
  logits.bytes.resize(logits.type.bytes());
  for (const Status& status :
       {stream->copyToDevice(*in, images.bytes.data(), images.bytes.size()), executable->launch(*stream, {*in}, {*out}),
        stream->copyToHost(logits.bytes.data(), *out, logits.bytes.size()), stream->synchronize(60000)})
    if (!status.ok()) return status;
  return logits;
}

struct Case {
  Target target;
  int level;
  Precision precision;
};

class Digits : public testing::TestWithParam<Case> {};

TEST_P(Digits, GiveTheClassesAndLogitsOfPyTorch) {
  CompileOptions options;
  options.target = GetParam().target;
  options.optLevel = GetParam().level;
  options.precision = GetParam().precision;
  auto result = compileFile(digits("model.onnx"), options);
  ASSERT_TRUE(result.ok()) << result.status().toString();
  auto images = tools::readTensorProto(digits("test_data_set_0/input_0.pb"));
  auto expected = tools::readTensorProto(digits("test_data_set_0/output_0.pb"));
  ASSERT_TRUE(images.ok() && expected.ok());
  auto logits = run(result->recipe, *images);
  ASSERT_TRUE(logits.ok()) << logits.status().toString();
  auto same = tools::sameArgMax(*logits, *expected);
  ASSERT_TRUE(same.ok());
  bool f32 = options.precision == Precision::kF32;
  EXPECT_GE(same->right, f32 ? same->rows : same->rows - 3);
  tools::Comparison comparison = tools::compare(*logits, *expected, {});
  EXPECT_LE(comparison.maxAbs, f32 ? 1e-4 : 0.5) << tools::toText(comparison);
  EXPECT_GT(result->stats.deviceTimeUs, 0);
  EXPECT_GE(result->stats.deviceTimeUs, result->stats.lowerBoundUs);
}

INSTANTIATE_TEST_SUITE_P(
    TargetsAndLevels, Digits,
    testing::Values(Case{Target::kGaudi1, 2, Precision::kF32}, Case{Target::kGaudi2, 0, Precision::kF32},
                    Case{Target::kGaudi2, 1, Precision::kF32}, Case{Target::kGaudi2, 2, Precision::kF32},
                    Case{Target::kGaudi2, 3, Precision::kF32}, Case{Target::kGaudi3, 2, Precision::kF32},
                    Case{Target::kGaudi2, 2, Precision::kBF16}),
    [](const auto& info) {
      return std::string(targetName(info.param.target)) + "_O" + std::to_string(info.param.level) +
             (info.param.precision == Precision::kF32 ? "_f32" : "_bf16");
    });

}  // namespace
}  // namespace hpu
