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
#include "base/StatusMacros.h"
#include "hpu/compiler.h"
#include "hpu/device.h"
#include "hpu/event.h"
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

/// Modelled device time: the geometric mean over the sizes of a test. One choice of tiles serves all of them.
constexpr double kMostOverSpecialised = 1.2;

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

/// A launch with inputs of these shapes, and what comes out; `deviceNs` gets the time of the launch on the device.
StatusOr<std::vector<tools::HostTensor>> run(Device& device, Executable& executable, const std::vector<Shape>& shapes,
                                             int64_t* deviceNs = nullptr) {
  auto stream = Stream::create(device);
  if (!stream.ok()) return stream.status();
  auto types = executable.outputs(shapes);
  if (!types.ok()) return types.status();
  std::vector<Buffer> inputs, outputs;
  std::vector<tools::HostTensor> kept, results;
  for (const TensorInfo& input : executable.recipe().inputs()) {
    const TensorType type{input.type.element, shapes[inputs.size()]};
    kept.push_back(randomTensor(type, static_cast<uint32_t>(inputs.size()) + 1));
    auto buffer = device.allocate(std::max<int64_t>(type.bytes(), 1));
    if (!buffer.ok()) return buffer.status();
    inputs.push_back(*buffer);
    if (Status status = stream->copyToDevice(*buffer, kept.back().bytes.data(), kept.back().bytes.size()); !status.ok())
      return status;
  }
  for (const TensorInfo& output : *types) {
    auto buffer = device.allocate(std::max<int64_t>(output.type.bytes(), 1));
    if (!buffer.ok()) return buffer.status();
    outputs.push_back(*buffer);
  }
  Event begin, end;
  HPU_RETURN_IF_ERROR(stream->record(begin));
  if (Status status = executable.launch(*stream, inputs, outputs, shapes); !status.ok()) return status;
  HPU_RETURN_IF_ERROR(stream->record(end));
  for (size_t i = 0; i < outputs.size(); ++i) {
    tools::HostTensor& result = results.emplace_back();
    result.type = (*types)[i].type;
    result.bytes.resize(static_cast<size_t>(result.type.bytes()));
    if (Status status = stream->copyToHost(result.bytes.data(), outputs[i], result.bytes.size()); !status.ok())
      return status;
  }
  if (Status status = stream->synchronize(60000); !status.ok()) return status;
  if (deviceNs) {
    HPU_ASSIGN(*deviceNs, end.elapsedNsSince(begin));
  }
  return results;
}

/// The model with bounds, once, and for each of the sizes. What a size alone is refused for is refused at launch.
void check(const std::string& path, const Bounds& bounds, const std::vector<Dims>& sizes,
           const CompileOptions& given = {}, double most = kMostOverSpecialised) {
  CompileOptions options = given;
  options.dimBounds = bounds;
  auto compiled = compileFile(path, options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().toString();
  const recipe::Program& program = *compiled->recipe.program();
  ASSERT_TRUE(program.dynamic);
  DeviceOptions opened;
  opened.target = program.target;
  auto device = Device::open(opened);
  ASSERT_TRUE(device.ok()) << device.status().toString();
  auto executable = Executable::load(*device, compiled->recipe);
  ASSERT_TRUE(executable.ok()) << executable.status().toString();
  const arch::TargetDesc& target = arch::targetDesc(program.target);
  double ratio = 0;
  int timed = 0;
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
    auto shapes = compiled->recipe.inputShapes(dims);
    ASSERT_TRUE(shapes.ok()) << at << shapes.status().toString();
    auto solved = recipe::solveSizes(program, *shapes);
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
    auto alone = Executable::load(*device, expected->recipe);
    ASSERT_TRUE(alone.ok()) << at << alone.status().toString();
    auto got = run(*device, *executable, *shapes), wanted = run(*device, *alone, *shapes);
    ASSERT_TRUE(got.ok()) << at << got.status().toString();
    ASSERT_TRUE(wanted.ok()) << at << wanted.status().toString();
    ASSERT_EQ(got->size(), wanted->size());
    for (size_t i = 0; i < got->size(); ++i) {
      ASSERT_EQ((*got)[i].type.shape, (*wanted)[i].type.shape) << at;
      tools::Comparison comparison = tools::compare((*got)[i], (*wanted)[i], {});
      EXPECT_LE(comparison.maxAbs, given.precision == Precision::kF32 ? 2e-4 : 0.2) << at << "output " << i << "\n"
                                                                                    << tools::toText(comparison);
    }
    const double fixedUs = expected->recipe.estimatedDeviceTimeUs(), lateUs = (*instance)->estimates.deviceTimeUs;
    if (fixedUs > 0 && lateUs > 0) {
      ratio += std::log(lateUs / fixedUs);
      ++timed;
    }
    if (std::getenv("HPU_LATE_VERBOSE"))
      std::printf("%s device %.1f us, for the size alone %.1f us\n", at.c_str(), lateUs, fixedUs);
  }
  const double mean = std::exp(ratio / std::max(timed, 1));
  if (std::getenv("HPU_LATE_VERBOSE"))
    std::printf("device time over that of the specialised recipe, geomean: %.3f\n", mean);
  EXPECT_LE(mean, most);
}

/// "tensor<?x64xf32, #hpu.layout<symbols = ["n", ""]>>" of {"n", "64"}.
std::string tensor(const std::vector<std::string>& dims, const std::string& element = "f32") {
  std::string sizes, names;
  bool isNamed = false;
  for (const std::string& dim : dims) {
    const bool isNumber = dim.find_first_not_of("0123456789") == std::string::npos;
    sizes += (isNumber ? dim : "?") + "x";
    names += (names.empty() ? "\"" : ", \"") + (isNumber ? "" : dim) + "\"";
    isNamed |= !isNumber;
  }
  return "tensor<" + sizes + element + (isNamed ? ", #hpu.layout<symbols = [" + names + "]>>" : ">");
}

/// A module of one function whose inputs are a, b, c ...; every line but the last is an op.
class Model {
 public:
  explicit Model(std::vector<std::string> inputs) : types_(std::move(inputs)), all_(types_) {}
  /// Adds "%N = hpu.op operands {attributes} : (types) -> result"; operands are numbers of values, inputs first.
  int op(const std::string& name, const std::vector<int>& operands, const std::string& result,
         const std::string& attributes = "") {
    std::string line = "    %v" + std::to_string(count()) + " = hpu." + name + " ", types;
    for (size_t i = 0; i < operands.size(); ++i) {
      line += (i ? ", " : "") + value(operands[i]);
      types += (i ? ", " : "") + all_[static_cast<size_t>(operands[i])];
    }
    line += (attributes.empty() ? "" : " {" + attributes + "}") + " : (" + types + ") -> " + result + "\n";
    body_ += line;
    all_.push_back(result);
    return count() - 1;
  }
  int constant(const std::string& type, const std::string& value) {
    body_ +=
        "    %v" + std::to_string(count()) + " = hpu.constant dense<" + value + "> : " + type + " : " + type + "\n";
    all_.push_back(type);
    return count() - 1;
  }
  /// Writes the file.
  std::string save(const std::string& name, const std::vector<int>& results) const {
    std::string arguments, types, values;
    for (size_t i = 0; i < types_.size(); ++i)
      arguments += (i ? ", " : "") + value(static_cast<int>(i)) + ": " + types_[i] + " {hpu.name = \"in" +
                   std::to_string(i) + "\"}";
    for (size_t i = 0; i < results.size(); ++i) {
      types +=
          (i ? ", " : "") + all_[static_cast<size_t>(results[i])] + " {hpu.name = \"out" + std::to_string(i) + "\"}";
      values += (i ? ", " : "") + value(results[i]);
    }
    std::string returned;
    for (size_t i = 0; i < results.size(); ++i) returned += (i ? ", " : "") + all_[static_cast<size_t>(results[i])];
    const std::string path = testing::TempDir() + "/late_" + name + ".mlir";
    std::ofstream(path) << "module attributes {hpu.model = \"" << name << "\"} {\n  func.func @main(" << arguments
                        << ") -> (" << types << ") {\n"
                        << body_ << "    func.return " << values << " : " << returned << "\n  }\n}\n";
    return path;
  }

 private:
  int count() const { return static_cast<int>(all_.size()); }
  static std::string value(int number) { return "%v" + std::to_string(number); }

  std::vector<std::string> types_, all_;  ///< Of the inputs, of all values.
  std::string body_;
};

std::vector<Dims> randomSizes(const Bounds& bounds, int count, uint32_t seed = 7) {
  std::mt19937 random(seed);
  std::vector<Dims> sizes;
  for (int i = 0; i < count; ++i) {
    Dims& dims = sizes.emplace_back();
    for (const auto& [dim, own] : bounds)
      dims[dim] = i == 0   ? own.min
                  : i == 1 ? own.max
                           : own.min + static_cast<int64_t>(random() % static_cast<uint64_t>(own.max - own.min + 1));
  }
  return sizes;
}

/// The first step of a cache has no past.
TEST(LateSizes, OfAttentionWithACache) {
  const std::string past = tensor({"b", "4", "p", "32"}), now = tensor({"b", "4", "s", "32"}),
                    all = tensor({"b", "4", "p + s", "32"});
  Model model({now, past, now, past, now});
  const int keys = model.op("concat", {1, 2}, all, "axis = 2 : i64");
  const int values = model.op("concat", {3, 4}, all, "axis = 2 : i64");
  const int turned = model.op("transpose", {keys}, tensor({"b", "4", "32", "p + s"}), "perm = array<i64: 0, 1, 3, 2>");
  const std::string square = tensor({"b", "4", "s", "p + s"});
  const int scores = model.op("matmul", {0, turned}, square);
  const int shares = model.op("softmax", {scores}, square, "axis = 3 : i64");
  const int mixed = model.op("matmul", {shares, values}, now);
  const Bounds bounds = {{"b", {1, 4}}, {"p", {0, 200}}, {"s", {1, 64}}};
  check(model.save("cache", {mixed, keys, values}), bounds, randomSizes(bounds, 8));
}

TEST(LateSizes, OfRowsAndReductions) {
  const std::string whole = tensor({"b", "s", "48"}), mean = tensor({"b", "1", "48"});
  Model model({whole});
  const int scale = model.constant("tensor<48xf32>", "1.5"), bias = model.constant("tensor<48xf32>", "0.25");
  const int normed = model.op("layer_norm", {0, scale, bias}, whole, "axis = 2 : i64, epsilon = 1.0e-5 : f64");
  const int means = model.op("reduce_mean", {normed}, mean, "axes = array<i64: 1>, keepdims = true");
  const int centred = model.op("sub", {normed, means}, whole);
  const int shares = model.op("softmax", {centred}, whole, "axis = 1 : i64");
  const int largest = model.op("reduce_max", {shares}, tensor({"b", "48"}), "axes = array<i64: 1>, keepdims = false");
  const Bounds bounds = {{"b", {1, 6}}, {"s", {1, 150}}};
  check(model.save("rows", {shares, largest}), bounds, randomSizes(bounds, 8));
}

TEST(LateSizes, OfWindows) {
  const std::string image = tensor({"b", "8", "h", "w"}),
                    half = tensor({"b", "8", "floor((h - 1) / 2) + 1", "floor((w - 1) / 2) + 1"});
  Model model({image});
  const int weights = model.constant("tensor<8x8x3x3xf32>", "0.0625"),
            own = model.constant("tensor<8x1x3x3xf32>", "0.125");
  const std::string padded = "dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, ";
  const int halved = model.op("conv2d", {0, weights}, half, padded + "groups = 1 : i64, strides = array<i64: 2, 2>");
  const int deep = model.op("conv2d", {halved, own}, half, padded + "groups = 8 : i64, strides = array<i64: 1, 1>");
  const int pooled = model.op("max_pool2d", {deep}, half,
                              padded + "kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, ceil_mode = false");
  const int averaged =
      model.op("reduce_mean", {pooled}, tensor({"b", "8"}), "axes = array<i64: 2, 3>, keepdims = false");
  const Bounds bounds = {{"b", {1, 4}}, {"h", {1, 70}}, {"w", {1, 70}}};
  check(model.save("windows", {pooled, averaged}), bounds, randomSizes(bounds, 8));
}

/// Products of nothing are zeros.
TEST(LateSizes, OfProductsOfAnySizes) {
  Model model({tensor({"m", "k"}), tensor({"k", "n"})});
  const int product = model.op("matmul", {0, 1}, tensor({"m", "n"}));
  const int positive = model.op("relu", {product}, tensor({"m", "n"}));
  const Bounds bounds = {{"m", {0, 70}}, {"k", {0, 70}}, {"n", {0, 70}}};
  std::vector<Dims> sizes = randomSizes(bounds, 6);
  for (const char* empty : {"m", "k", "n"}) {
    sizes.push_back({{"m", 5}, {"k", 6}, {"n", 7}});
    sizes.back()[empty] = 0;
  }
  const std::string path = model.save("products", {positive});
  check(path, bounds, sizes);
  // The scales of fp8 are scalars, which may stay in SRAM.
  CompileOptions fp8;
  fp8.precision = Precision::kFp8;
  fp8.dimBounds = {{"m", {0, 8}}, {"k", {0, 8}}, {"n", {0, 8}}};
  auto compiled = compileFile(path, fp8);
  EXPECT_TRUE(compiled.ok()) << compiled.status().toString();
}

/// Heads are taken apart and put together again; the last row is found from the end; a mask is made of positions.
TEST(LateSizes, OfViewsAndPositions) {
  const std::string whole = tensor({"b", "s", "48"}), heads = tensor({"b", "s", "4", "12"});
  const std::string kFree = "-9223372036854775808";
  Model model({whole});
  const int apart =
      model.op("reshape", {0}, heads,
               "shape = array<i64: " + kFree + ", " + kFree + ", 4, 12>, symbols = [\"b\", \"s\", \"\", \"\"]");
  const int turned = model.op("transpose", {apart}, tensor({"b", "4", "s", "12"}), "perm = array<i64: 0, 2, 1, 3>");
  const int across = model.op("transpose", {turned}, tensor({"b", "4", "12", "s"}), "perm = array<i64: 0, 1, 3, 2>");
  const std::string square = tensor({"b", "4", "s", "s"});
  const int scores = model.op("matmul", {turned, across}, square);
  const int rows = model.op("range", {}, tensor({"s"}, "i64"),
                            "element = i64, sizes = array<i64: " + kFree +
                                ">, starts = array<i64: 0>, steps = array<i64: 1>, symbols = [\"s\"]");
  const int column = model.op("reshape", {rows}, tensor({"s", "1"}, "i64"),
                              "shape = array<i64: " + kFree + ", 1>, symbols = [\"s\", \"\"]");
  const int mask = model.op("less_equal", {rows, column}, tensor({"s", "s"}, "i1"));
  const int low = model.constant("tensor<f32>", "-1.0e9");
  const int masked = model.op("where", {mask, scores, low}, square);
  const int shares = model.op("softmax", {masked}, square, "axis = 3 : i64");
  const int mixed = model.op("matmul", {shares, turned}, tensor({"b", "4", "s", "12"}));
  const int back = model.op("transpose", {mixed}, heads, "perm = array<i64: 0, 2, 1, 3>");
  const int joined = model.op("reshape", {back}, whole,
                              "shape = array<i64: " + kFree + ", " + kFree + ", 48>, symbols = [\"b\", \"s\", \"\"]");
  const int end = model.constant("tensor<i64>", "-1");
  const int last = model.op("gather", {joined, end}, tensor({"b", "48"}), "axis = 1 : i64");
  const Bounds bounds = {{"b", {1, 4}}, {"s", {1, 100}}};
  check(model.save("views", {joined, last}), bounds, randomSizes(bounds, 8));
}

/// Modelled device time is as good as that of a recipe for the sizes alone: units hand on their results in SRAM, and
/// are cut as suits the sizes.
constexpr double kAsGoodAsSpecialised = 1.05;

/// Heads go on through SRAM to the product that joins them, tile by tile: its reader sees batch and heads as they were
/// not made, which only strides can say.
TEST(LateSizes, OfATransformersLayerTakeTheTimeOfTheSizesAlone) {
  const std::string kFree = "-9223372036854775808";
  const std::string whole = tensor({"b", "s", "256"}), wide = tensor({"b", "s", "1024"}),
                    heads = tensor({"b", "4", "s", "64"}), square = tensor({"b", "4", "s", "s"});
  Model model({heads, tensor({"b", "4", "64", "s"}), heads, whole});
  const int scores = model.op("matmul", {0, 1}, square);
  const int shares = model.op("softmax", {scores}, square, "axis = 3 : i64");
  const int mixed = model.op("matmul", {shares, 2}, heads);
  const int turned = model.op("transpose", {mixed}, tensor({"b", "s", "4", "64"}), "perm = array<i64: 0, 2, 1, 3>");
  const int joined = model.op("reshape", {turned}, whole,
                              "shape = array<i64: " + kFree + ", " + kFree + ", 256>, symbols = [\"b\", \"s\", \"\"]");
  const int projected = model.op("matmul", {joined, model.constant("tensor<256x256xf32>", "0.0625")}, whole);
  const int sum = model.op("add", {projected, 3}, whole);
  const int up = model.op("matmul", {sum, model.constant("tensor<256x1024xf32>", "0.03125")}, wide);
  const int active = model.op("gelu", {up}, wide);
  const int down = model.op("matmul", {active, model.constant("tensor<1024x256xf32>", "-0.03125")}, whole);
  const int result = model.op("add", {down, sum}, whole);
  const Bounds bounds = {{"b", {1, 16}}, {"s", {1, 256}}};
  const std::string path = model.save("layer", {result});
  CompileOptions options;
  options.dimBounds = bounds;
  auto compiled = compileFile(path, options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().toString();
  const recipe::Dynamic& dynamic = *compiled->recipe.program()->dynamic;
  int64_t chained = 0;
  for (const recipe::TileStorage& tile : dynamic.tiles)
    chained += tile.slots > 1 && dynamic.units[tile.unit].parts.size() > 1 && !tile.users.back().strides.empty();
  EXPECT_GE(chained, 1) << "units do not hand on their results in SRAM";
  check(path, bounds, randomSizes(bounds, 12), {}, kAsGoodAsSpecialised);
}

/// Of one long sequence heads and batches are too few to cut between them: queries are, across the tiles of the middle
/// sizes.
TEST(LateSizes, OfAFewLongSequencesTakeTheTimeOfTheSizesAlone) {
  const std::string heads = tensor({"b", "4", "s", "16"}), square = tensor({"b", "4", "s", "s"});
  Model model({heads, tensor({"b", "4", "16", "s"}), heads});
  const int scores = model.op("matmul", {0, 1}, square);
  const int shares = model.op("softmax", {scores}, square, "axis = 3 : i64");
  const int mixed = model.op("matmul", {shares, 2}, heads);
  const Bounds bounds = {{"b", {1, 8}}, {"s", {1, 512}}};
  const std::string path = model.save("long", {mixed});
  CompileOptions options;
  options.dimBounds = bounds;
  auto compiled = compileFile(path, options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().toString();
  const recipe::Dynamic& dynamic = *compiled->recipe.program()->dynamic;
  bool across = false;
  for (const recipe::TileStorage& tile : dynamic.tiles)
    for (const recipe::TileChoice& choice : dynamic.choices) {
      const std::vector<uint32_t>& slices = choice.slices[tile.unit][tile.part];
      for (size_t d = 0; tile.slots > 1 && d < slices.size(); ++d) across |= slices[d] > 1 && d != tile.dim;
    }
  EXPECT_TRUE(across) << "no choice cuts otherwise than along the tiles";
  const std::vector<Dims> sizes = {{{"b", 1}, {"s", 457}}, {{"b", 1}, {"s", 512}}, {{"b", 1}, {"s", 331}},
                                   {{"b", 2}, {"s", 326}}, {{"b", 3}, {"s", 301}}, {{"b", 1}, {"s", 1}},
                                   {{"b", 8}, {"s", 130}}, {{"b", 8}, {"s", 512}}, {{"b", 7}, {"s", 263}}};
  check(path, bounds, sizes, {}, kAsGoodAsSpecialised);
}

TEST(LateSizes, OfAProductAndASumOfItsSharesTakeTheTimeOfTheSizesAlone) {
  const std::string square = tensor({"b", "s", "s"});
  Model model({tensor({"b", "s", "64"}), tensor({"b", "64", "s"})});
  const int product = model.op("matmul", {0, 1}, square);
  const int shares = model.op("softmax", {product}, square, "axis = 2 : i64");
  const int sum = model.op("reduce_sum", {shares}, tensor({"b", "s"}), "axes = array<i64: 1>, keepdims = false");
  const Bounds bounds = {{"b", {1, 8}}, {"s", {1, 256}}};
  check(model.save("shares", {sum}), bounds, randomSizes(bounds, 12), {}, kAsGoodAsSpecialised);
}

/// Fewer slices are tried, so programs differ; what they compute does not.
TEST(LateSizes, OfALowSearchEffortGiveTheSameResults) {
  const std::string heads = tensor({"b", "8", "s", "64"}), square = tensor({"b", "8", "s", "s"});
  Model model({heads, tensor({"b", "8", "64", "s"}), heads});
  const int scores = model.op("matmul", {0, 1}, square);
  const int shares = model.op("softmax", {scores}, square, "axis = 3 : i64");
  const int mixed = model.op("matmul", {shares, 2}, heads);
  const int active = model.op("gelu", {mixed}, heads);
  const std::string path = model.save("effort", {active});
  const Bounds bounds = {{"b", {1, 8}}, {"s", {1, 512}}};
  auto device = Device::open(DeviceOptions{});
  ASSERT_TRUE(device.ok()) << device.status().toString();
  std::vector<std::vector<tools::HostTensor>> results;
  std::vector<double> times;
  for (int effort : {100, 10, 0})
    for (bool isFree : {true, false}) {
      CompileOptions options;
      options.searchEffort = effort;
      if (isFree)
        options.dimBounds = bounds;
      else
        options.dims = {{"b", 8}, {"s", 512}};
      auto compiled = compileFile(path, options);
      ASSERT_TRUE(compiled.ok()) << compiled.status().toString();
      auto executable = Executable::load(*device, compiled->recipe);
      ASSERT_TRUE(executable.ok()) << executable.status().toString();
      auto got = run(*device, *executable, {{8, 8, 512, 64}, {8, 8, 64, 512}, {8, 8, 512, 64}});
      ASSERT_TRUE(got.ok()) << got.status().toString();
      results.push_back(*got);
      if (!isFree) times.push_back(compiled->recipe.estimatedDeviceTimeUs());
    }
  for (const std::vector<tools::HostTensor>& result : results) EXPECT_EQ(result[0].bytes, results[0][0].bytes);
  EXPECT_LE(times[1], 1.1 * times[0]);
  EXPECT_GT(times[2], times[0]) << "the search changes nothing, and the test compares a program with itself";
}

/// What a launch is told of sizes that do not fit.
TEST(LateSizes, ThatDoNotFitAreNamed) {
  const std::string in = tensor({"n", "8"});
  Model model({in, in});
  const int sum = model.op("add", {0, 1}, in);
  CompileOptions options;
  options.dimBounds = {{"n", {1, 16}}};
  auto compiled = compileFile(model.save("bounds", {sum}), options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().toString();
  const recipe::Program& program = *compiled->recipe.program();
  for (const auto& [shapes, words] : std::vector<std::pair<std::vector<Shape>, std::string>>{
           {{{17, 8}, {17, 8}}, "'n'"}, {{{5, 8}, {6, 8}}, "'in1'"}, {{{5, 9}, {5, 9}}, "in0"}}) {
    auto sizes = recipe::solveSizes(program, shapes);
    ASSERT_FALSE(sizes.ok());
    EXPECT_NE(sizes.status().message().find(words), std::string::npos) << sizes.status().message();
  }
  options.dimBounds = {{"m", {1, 16}}};
  EXPECT_NE(compileFile(testing::TempDir() + "/late_bounds.mlir", options).status().message().find("there are: n"),
            std::string::npos);
  options.dimBounds = {{"n", {5, 4}}};
  EXPECT_FALSE(compileFile(testing::TempDir() + "/late_bounds.mlir", options).ok());
}

/// What a launch came to: the bytes of the outputs and the time on the device.
struct Outcome {
  std::vector<std::vector<uint8_t>> outputs;
  int64_t deviceNs = 0;
};

StatusOr<Outcome> timed(const Recipe& recipe, const std::vector<Shape>& shapes) {
  DeviceOptions opened;
  opened.target = recipe.target();
  HPU_ASSIGN(Device device, Device::open(opened));  // A fresh one: nothing of an earlier launch is left in its clock.
  HPU_ASSIGN(Executable executable, Executable::load(device, recipe));
  Outcome outcome;
  HPU_ASSIGN(auto results, run(device, executable, shapes, &outcome.deviceNs));
  for (tools::HostTensor& result : results) outcome.outputs.push_back(std::move(result.bytes));
  return outcome;
}

/// The recipe with variants: each runs as what is compiled for its sizes alone does, to the bit and the nanosecond, and
/// other sizes as the recipe without variants has them.
void checkVariants(const std::string& path, const Bounds& bounds, const std::vector<Dims>& variants,
                   const std::vector<std::pair<Dims, int>>& launches, bool sharesAll) {
  CompileOptions options;
  options.dimBounds = bounds;
  auto general = compileFile(path, options);
  ASSERT_TRUE(general.ok()) << general.status().toString();
  options.specialize = variants;
  auto compiled = compileFile(path, options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().toString();
  ASSERT_EQ(compiled->recipe.variants().size(), variants.size());
  if (sharesAll) {
    EXPECT_EQ(compiled->recipe.constantBytes(), general->recipe.constantBytes());
  }
  // As it comes back from a file.
  auto bytes = compiled->recipe.serialize();
  ASSERT_TRUE(bytes.ok()) << bytes.status().toString();
  auto recipe = Recipe::deserialize(bytes->data(), bytes->size());
  ASSERT_TRUE(recipe.ok()) << recipe.status().toString();
  EXPECT_EQ(recipe->variants(), compiled->recipe.variants());
  for (const auto& [dims, variant] : launches) {
    SCOPED_TRACE(testing::PrintToString(dims));
    StatusOr<CompileResult> alone = general;
    if (variant >= 0) {
      CompileOptions own;
      own.dimBounds = bounds;
      own.dims = variants[static_cast<size_t>(variant)];
      for (const auto& [name, size] : own.dims) own.dimBounds.erase(name);
      alone = compileFile(path, own);
    }
    ASSERT_TRUE(alone.ok()) << alone.status().toString();
    auto shapes = recipe->inputShapes(dims);
    ASSERT_TRUE(shapes.ok()) << shapes.status().toString();
    auto got = timed(*recipe, *shapes), wanted = timed(alone->recipe, *shapes);
    ASSERT_TRUE(got.ok()) << got.status().toString();
    ASSERT_TRUE(wanted.ok()) << wanted.status().toString();
    EXPECT_EQ(got->outputs, wanted->outputs);
    EXPECT_EQ(got->deviceNs, wanted->deviceNs);
    EXPECT_GT(got->deviceNs, 0);
  }
}

TEST(LateSizes, OfVariantsOfAttention) {
  const std::string past = tensor({"b", "4", "p", "32"}), now = tensor({"b", "4", "s", "32"}),
                    all = tensor({"b", "4", "p + s", "32"}), square = tensor({"b", "4", "s", "p + s"});
  Model model({now, past, now});
  const int keys = model.op("concat", {1, 2}, all, "axis = 2 : i64");
  const int turned = model.op("transpose", {keys}, tensor({"b", "4", "32", "p + s"}), "perm = array<i64: 0, 1, 3, 2>");
  const int scores = model.op("matmul", {0, turned}, square);
  const int shares = model.op("softmax", {scores}, square, "axis = 3 : i64");
  const int mixed = model.op("matmul", {shares, keys}, now);
  const Bounds bounds = {{"b", {1, 4}}, {"p", {0, 200}}, {"s", {1, 64}}};
  const std::vector<Dims> variants = {{{"s", 1}}, {{"b", 2}, {"p", 100}, {"s", 1}}, {{"b", 1}, {"p", 0}, {"s", 64}}};
  checkVariants(model.save("variants", {mixed, keys}), bounds, variants,
                {{{{"b", 3}, {"p", 100}, {"s", 1}}, 0},
                 {{{"b", 2}, {"p", 100}, {"s", 1}}, 1},
                 {{{"b", 1}, {"p", 0}, {"s", 64}}, 2},
                 {{{"b", 2}, {"p", 100}, {"s", 2}}, -1}},
                true);
}

/// Weights, and a table of which a launch reads rows that begin where `p` says.
TEST(LateSizes, OfVariantsWithWeights) {
  const std::string whole = tensor({"s", "48"}), cache = tensor({"p", "48"}), all = tensor({"p + s", "48"});
  Model model({whole, cache});
  const int weights = model.constant("tensor<48x48xf32>", "0.125"), scale = model.constant("tensor<48xf32>", "1.5"),
            bias = model.constant("tensor<48xf32>", "0.25");
  const int product = model.op("matmul", {0, weights}, whole);
  const int normed = model.op("layer_norm", {product, scale, bias}, whole, "axis = 1 : i64, epsilon = 1.0e-5 : f64");
  const int joined = model.op("concat", {1, normed}, all, "axis = 0 : i64");
  const Bounds bounds = {{"p", {0, 60}}, {"s", {1, 150}}};
  checkVariants(model.save("weights", {joined}), bounds, {{{"s", 128}}, {{"p", 8}, {"s", 1}}},
                {{{{"p", 5}, {"s", 128}}, 0}, {{{"p", 8}, {"s", 1}}, 1}, {{{"p", 8}, {"s", 7}}, -1}}, true);
}

TEST(LateSizes, OfVariantsThatThereCannotBeAreNamed) {
  const std::string in = tensor({"n", "8"});
  Model model({in, in});
  const std::string path = model.save("no_variants", {model.op("add", {0, 1}, in)});
  auto refusal = [&](const std::vector<Dims>& variants, const Bounds& bounds, const std::string& stopAfter = "") {
    CompileOptions options;
    options.dimBounds = bounds;
    options.specialize = variants;
    options.stopAfter = stopAfter;
    return compileFile(path, options).status().message();
  };
  const Bounds bounds = {{"n", {1, 16}}};
  EXPECT_NE(refusal({{{"n", 17}}}, bounds).find("whose bounds are 1 to 16"), std::string::npos);
  EXPECT_NE(refusal({{{"m", 3}}}, bounds).find("there are: n"), std::string::npos);
  EXPECT_NE(refusal({{{"n", 3}}}, {}).find("has no bounds"), std::string::npos);
  EXPECT_NE(refusal({{}}, bounds).find("without a size"), std::string::npos);
  EXPECT_NE(refusal({{{"n", 3}}}, bounds, "tile").find("partial run"), std::string::npos);
  EXPECT_NE(refusal(std::vector<Dims>(65, {{"n", 3}}), bounds).find("at most 64"), std::string::npos);
  // What is asked for twice is there once.
  CompileOptions options;
  options.dimBounds = bounds;
  options.specialize = {{{"n", 3}}, {{"n", 3}}};
  options.reports = {"shapes"};
  auto compiled = compileFile(path, options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().toString();
  EXPECT_EQ(compiled->recipe.variants(), (std::vector<Dims>{{{"n", 3}}}));
  EXPECT_NE(compiled->reports["shapes"].find("specialised for n=3: device time "), std::string::npos);
}

/// HPU_LATE_MODEL=model.onnx HPU_LATE_BOUNDS="batch 1 8 seq 1 512" HPU_LATE_COUNT=200: any model at random sizes.
TEST(LateSizes, OfAModelOfOnesOwn) {
  const char* path = std::getenv("HPU_LATE_MODEL");
  if (!path) GTEST_SKIP();
  Bounds bounds;
  std::istringstream text(std::getenv("HPU_LATE_BOUNDS"));
  std::string name;
  DimBounds own;
  while (text >> name >> own.min >> own.max) bounds[name] = own;
  const std::vector<Dims> sizes = randomSizes(bounds, std::atoi(std::getenv("HPU_LATE_COUNT")));
  CompileOptions options;
  if (const char* precision = std::getenv("HPU_LATE_PRECISION")) options.precision = *parsePrecision(precision);
  if (const char* target = std::getenv("HPU_LATE_TARGET")) options.target = *parseTarget(target);
  if (const char* level = std::getenv("HPU_LATE_LEVEL")) options.optLevel = std::atoi(level);
  check(path, bounds, sizes, options);
}

}  // namespace
}  // namespace hpu
