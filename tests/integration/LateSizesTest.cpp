// SPDX-License-Identifier: Apache-2.0
// One recipe for every shape: what is compiled once, with bounds, gives at each size what is compiled for that size.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "arch/TargetDesc.h"
#include "hpu/compiler.h"
#include "hpu/device.h"
#include "hpu/executable.h"
#include "hpu/stream.h"
#include "numerics/Convert.h"
#include "plan/Instantiate.h"
#include "recipe/ScheduleChecker.h"
#include "tools/common/Compare.h"
#include "tools/common/HostTensor.h"

namespace hpu {
namespace {

using Dims = std::map<std::string, int64_t>;
using Bounds = std::map<std::string, DimBounds>;

tools::HostTensor randomTensor(const TensorType& type, uint32_t seed) {
  std::mt19937 random(seed);
  tools::HostTensor tensor;
  tensor.type = type;
  tensor.bytes.resize(static_cast<size_t>(type.bytes()));
  const int64_t count = type.bytes() / elementSize(type.element);
  for (int64_t i = 0; i < count; ++i) {
    const float value = std::uniform_real_distribution<float>(-2, 2)(random);
    const auto small = static_cast<int64_t>(random() % 7);
    void* at = tensor.bytes.data() + i * elementSize(type.element);
    if (type.element == ElementType::kF32)
      std::memcpy(at, &value, sizeof value);
    else
      std::memcpy(at, &small, static_cast<size_t>(elementSize(type.element)));
    if (type.element == ElementType::kBool) *static_cast<uint8_t*>(at) &= 1;
  }
  return tensor;
}

StatusOr<std::vector<tools::HostTensor>> run(Device& device, const Recipe& recipe) {
  auto executable = Executable::load(device, recipe);
  if (!executable.ok()) return executable.status();
  auto stream = Stream::create(device);
  if (!stream.ok()) return stream.status();
  std::vector<Buffer> inputs, outputs;
  std::vector<tools::HostTensor> kept, results;
  uint32_t seed = 1;
  for (const TensorInfo& input : recipe.inputs()) {
    kept.push_back(randomTensor(input.type, seed++));
    auto buffer = device.allocate(std::max<int64_t>(input.type.bytes(), 1));
    if (!buffer.ok()) return buffer.status();
    inputs.push_back(*buffer);
    if (Status status = stream->copyToDevice(*buffer, kept.back().bytes.data(), kept.back().bytes.size()); !status.ok())
      return status;
  }
  for (const TensorInfo& output : recipe.outputs()) {
    auto buffer = device.allocate(std::max<int64_t>(output.type.bytes(), 1));
    if (!buffer.ok()) return buffer.status();
    outputs.push_back(*buffer);
  }
  if (Status status = executable->launch(*stream, inputs, outputs); !status.ok()) return status;
  for (size_t i = 0; i < outputs.size(); ++i) {
    tools::HostTensor& result = results.emplace_back();
    result.type = recipe.outputs()[i].type;
    result.bytes.resize(static_cast<size_t>(result.type.bytes()));
    if (Status status = stream->copyToHost(result.bytes.data(), outputs[i], result.bytes.size()); !status.ok())
      return status;
  }
  if (Status status = stream->synchronize(60000); !status.ok()) return status;
  return results;
}

std::vector<Shape> inputShapes(const recipe::Program& program, const recipe::Sizes& sizes) {
  const recipe::SizeValues values(*program.dynamic, sizes);
  std::vector<Shape> shapes;
  for (const TensorInfo& input : program.inputs) shapes.push_back(input.type.shape);
  for (const recipe::Patch& patch : program.dynamic->patches)
    if (patch.field == recipe::Patch::Field::kInputSize) shapes[patch.index][patch.dim] = *values.find(patch.expr);
  return shapes;
}

/// The model with bounds, once, and for each of the sizes. What a size alone is refused for is refused at launch.
void check(const std::string& path, const Bounds& bounds, const std::vector<Dims>& sizes,
           const CompileOptions& given = {}) {
  CompileOptions options = given;
  options.dimBounds = bounds;
  auto late = compileFile(path, options);
  ASSERT_TRUE(late.ok()) << late.status().toString();
  const recipe::Program& program = *late->recipe.program();
  ASSERT_TRUE(program.dynamic);
  DeviceOptions opened;
  opened.target = program.target;
  auto device = Device::open(opened);
  ASSERT_TRUE(device.ok()) << device.status().toString();
  const arch::TargetDesc& target = arch::targetDesc(program.target);
  double ratio = 0;
  for (const Dims& dims : sizes) {
    std::string at;
    recipe::Sizes own;
    for (const recipe::Symbol& symbol : program.dynamic->symbols) {
      own.push_back(dims.at(symbol.name));
      at += symbol.name + "=" + std::to_string(dims.at(symbol.name)) + " ";
    }
    CompileOptions fixed = given;
    fixed.dims = dims;
    auto expected = compileFile(path, fixed);
    auto solved = recipe::solveSizes(program, inputShapes(program, own));
    EXPECT_EQ(solved.ok(), expected.ok()) << at << solved.status().toString() << expected.status().toString();
    if (!solved.ok()) {
      if (std::getenv("HPU_LATE_VERBOSE")) std::printf("%s %s\n", at.c_str(), solved.status().message().c_str());
      continue;
    }
    EXPECT_EQ(*solved, own);
    ASSERT_TRUE(expected.ok()) << at << expected.status().toString();
    auto instance = plan::instantiate(program, own, target);
    ASSERT_TRUE(instance.ok()) << at << instance.status().toString();
    const recipe::KernelReads reads = plan::kernelReads(program, own, **instance);
    Status checked = recipe::checkSchedule(**instance, &reads);
    EXPECT_TRUE(checked.ok()) << at << checked.toString();
    auto got = run(*device, Recipe(*instance)), wanted = run(*device, expected->recipe);
    ASSERT_TRUE(got.ok()) << at << got.status().toString();
    ASSERT_TRUE(wanted.ok()) << at << wanted.status().toString();
    ASSERT_EQ(got->size(), wanted->size());
    for (size_t i = 0; i < got->size(); ++i) {
      ASSERT_EQ((*got)[i].type.shape, (*wanted)[i].type.shape) << at;
      tools::Comparison comparison = tools::compare((*got)[i], (*wanted)[i], {});
      EXPECT_LE(comparison.maxAbs, given.precision == Precision::kF32 ? 2e-4 : 0.2) << at << "output " << i << "\n"
                                                                                    << tools::toText(comparison);
    }
    ratio += std::log((*instance)->estimates.deviceTimeUs / expected->recipe.estimatedDeviceTimeUs());
    if (std::getenv("HPU_LATE_VERBOSE"))
      std::printf("%s device %.1f us, for the size alone %.1f us\n", at.c_str(), (*instance)->estimates.deviceTimeUs,
                  expected->recipe.estimatedDeviceTimeUs());
  }
  std::printf("device time over that of the specialised recipe, geomean: %.3f\n",
              std::exp(ratio / static_cast<double>(std::max<size_t>(sizes.size(), 1))));
}

TEST(LateSizes, OfAModelOfOnesOwn) {
  const char* path = std::getenv("HPU_LATE_MODEL");
  if (!path) GTEST_SKIP();
  Bounds bounds;
  std::istringstream text(std::getenv("HPU_LATE_BOUNDS"));
  std::string name;
  DimBounds own;
  while (text >> name >> own.min >> own.max) bounds[name] = own;
  std::mt19937 random(7);
  std::vector<Dims> sizes;
  for (int i = 0; i < std::atoi(std::getenv("HPU_LATE_COUNT")); ++i) {
    Dims& dims = sizes.emplace_back();
    for (const auto& [dim, range] : bounds)
      dims[dim] = i == 0   ? range.min
                  : i == 1 ? range.max
                           : range.min + static_cast<int64_t>(random() % (range.max - range.min + 1));
  }
  CompileOptions options;
  if (const char* precision = std::getenv("HPU_LATE_PRECISION")) options.precision = *parsePrecision(precision);
  if (const char* target = std::getenv("HPU_LATE_TARGET")) options.target = *parseTarget(target);
  if (const char* level = std::getenv("HPU_LATE_LEVEL")) options.optLevel = std::atoi(level);
  check(path, bounds, sizes, options);
}

}  // namespace
}  // namespace hpu
