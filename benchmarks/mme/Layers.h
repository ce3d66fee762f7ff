// SPDX-License-Identifier: Apache-2.0
// The layers that the MME benchmark runs: ResNet-50's convolutions in their order, and BERT-like gemms.
// The one thing to know: one entry is one execution; a shape that the network repeats is listed as often.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hpu::bench {

enum class Epilogue : uint8_t { kBias, kBiasRelu, kBiasAddRelu };

struct Layer {
  std::string name;
  bool gemm = false;
  // Convolution (square, NHWC; the first one reads NCHW as a model's input lies).
  int64_t batch = 1, size = 1, in = 1, out = 1, window = 1, stride = 1;
  bool planarInput = false;
  Epilogue epilogue = Epilogue::kBiasRelu;
  // Gemm: batch x (m x k) * (k x n).
  int64_t m = 0, k = 0, n = 0;
  bool constantB = true;

  int64_t outSize() const { return (size + 2 * (window / 2) - window) / stride + 1; }
  double flops() const;
};

/// The 53 convolutions of ResNet-50 (v1.5: strides in the 3x3) and its classifier, at `batch`.
std::vector<Layer> resnet50(int64_t batch);
/// The gemms of one BERT-base layer of `sequence` tokens, and square ones.
std::vector<Layer> gemms(int64_t sequence);

}  // namespace hpu::bench
