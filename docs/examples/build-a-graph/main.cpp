// SPDX-License-Identifier: Apache-2.0
// Builds y = gelu(x * W + b) by hand, compiles it for a Gaudi 2, runs it on the simulated device and checks the
// numbers. Uses nothing but the public headers.
#include <hpu/compiler.h>
#include <hpu/device.h>
#include <hpu/executable.h>
#include <hpu/graph.h>
#include <hpu/stream.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr int64_t kRows = 32, kIn = 64, kOut = 48;

std::vector<float> ramp(int64_t count, float scale) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = scale * static_cast<float>((i * 37) % 101 - 50);
  return values;
}

/// Stops the example with the library's own message.
template <typename T>
T check(hpu::StatusOr<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "error: %s\n", result.status().toString().c_str());
    std::exit(1);
  }
  return std::move(result).value();
}
void check(const hpu::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "error: %s\n", status.toString().c_str());
  std::exit(1);
}

hpu::Graph buildGraph(const std::vector<float>& weights, const std::vector<float>& bias) {
  hpu::Graph graph("gelu_layer");
  hpu::Value x = check(graph.input("x", {hpu::ElementType::kF32, {kRows, kIn}}));
  hpu::Value w = check(graph.constant({hpu::ElementType::kF32, {kIn, kOut}}, weights.data(), weights.size() * 4));
  hpu::Value b = check(graph.constant({hpu::ElementType::kF32, {kOut}}, bias.data(), bias.size() * 4));
  hpu::Value product = check(graph.op("matmul", {x, w}, {}, "product"));
  hpu::Value sum = check(graph.op("add", {product, b}, {}, "sum"));
  check(graph.output("y", check(graph.op("gelu", {sum}, {}, "gelu"))));
  return graph;
}

double expected(const std::vector<float>& x, const std::vector<float>& w, const std::vector<float>& b, int64_t row,
                int64_t column) {
  double sum = b[column];
  for (int64_t k = 0; k < kIn; ++k) sum += double(x[row * kIn + k]) * w[k * kOut + column];
  return 0.5 * sum * (1 + std::erf(sum / std::sqrt(2.0)));
}

}  // namespace

int main() {
  std::vector<float> x = ramp(kRows * kIn, 0.01f), w = ramp(kIn * kOut, 0.005f), b = ramp(kOut, 0.02f);
  hpu::Graph graph = buildGraph(w, b);

  hpu::CompileOptions options;
  options.target = hpu::Target::kGaudi2;
  hpu::CompileResult compiled = check(hpu::compile(graph, options));
  std::printf("compiled for %s: %.2f us on the device (modelled)\n",
              std::string(hpu::targetName(compiled.recipe.target())).c_str(), compiled.stats.deviceTimeUs);

  hpu::Device device = check(hpu::Device::open());
  hpu::Stream stream = check(hpu::Stream::create(device));
  hpu::Executable executable = check(hpu::Executable::load(device, compiled.recipe));
  hpu::Buffer input = check(device.allocate(compiled.recipe.inputs()[0].type.bytes(), "x"));
  hpu::Buffer output = check(device.allocate(compiled.recipe.outputs()[0].type.bytes(), "y"));

  std::vector<float> y(kRows * kOut);
  hpu::Event begin, end;
  check(stream.copyToDevice(input, x.data(), static_cast<int64_t>(x.size() * 4)));
  check(stream.record(begin));
  check(executable.launch(stream, {input}, {output}));
  check(stream.record(end));
  check(stream.copyToHost(y.data(), output, static_cast<int64_t>(y.size() * 4)));
  check(stream.synchronize());
  std::printf("launched: %lld ns of device time\n", static_cast<long long>(check(end.elapsedNsSince(begin))));

  double worst = 0;
  for (int64_t row = 0; row < kRows; ++row)
    for (int64_t column = 0; column < kOut; ++column)
      worst = std::fmax(worst, std::fabs(y[row * kOut + column] - expected(x, w, b, row, column)));
  std::printf("largest difference from double precision: %.2e\n", worst);
  return worst < 1e-4 ? 0 : 2;
}
