// SPDX-License-Identifier: Apache-2.0
#include "Layers.h"

namespace hpu::bench {

double Layer::flops() const {
  if (gemm)
    return 2.0 * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  double points = static_cast<double>(batch * outSize() * outSize());
  return 2.0 * points * static_cast<double>(in * out * window * window);
}

std::vector<Layer> resnet50(int64_t batch) {
  std::vector<Layer> layers;
  auto conv = [&](std::string name, int64_t size, int64_t in, int64_t out, int64_t window, int64_t stride,
                  Epilogue epilogue) {
    Layer layer;
    layer.name = std::move(name);
    layer.batch = batch;
    layer.size = size;
    layer.in = in;
    layer.out = out;
    layer.window = window;
    layer.stride = stride;
    layer.epilogue = epilogue;
    layer.planarInput = in == 3;
    layers.push_back(layer);
  };
  conv("conv1", 224, 3, 64, 7, 2, Epilogue::kBiasRelu);
  int64_t size = 56, in = 64;
  const int64_t blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    int64_t width = int64_t{64} << stage;
    for (int64_t block = 0; block < blocks[stage]; ++block) {
      int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(block);
      conv(name + ".conv1", size, in, width, 1, 1, Epilogue::kBiasRelu);
      conv(name + ".conv2", size, width, width, 3, stride, Epilogue::kBiasRelu);
      if (block == 0) conv(name + ".downsample", size, in, width * 4, 1, stride, Epilogue::kBias);
      size /= stride;
      conv(name + ".conv3", size, width, width * 4, 1, 1, Epilogue::kBiasAddRelu);
      in = width * 4;
    }
  }
  Layer classifier;
  classifier.name = "fc";
  classifier.gemm = true;
  classifier.epilogue = Epilogue::kBias;
  classifier.m = batch;
  classifier.k = 2048;
  classifier.n = 1000;
  layers.push_back(classifier);
  return layers;
}

std::vector<Layer> gemms(int64_t sequence) {
  std::vector<Layer> layers;
  auto gemm = [&](std::string name, int64_t batch, int64_t m, int64_t k, int64_t n, bool constantB) {
    Layer layer;
    layer.name = std::move(name);
    layer.gemm = true;
    layer.batch = batch;
    layer.m = m;
    layer.k = k;
    layer.n = n;
    layer.constantB = constantB;
    layer.epilogue = Epilogue::kBias;
    layers.push_back(layer);
  };
  gemm("qkv", 1, sequence, 768, 2304, true);
  gemm("scores", 12, sequence, 64, sequence, false);
  gemm("context", 12, sequence, sequence, 64, false);
  gemm("projection", 1, sequence, 768, 768, true);
  gemm("ffn1", 1, sequence, 768, 3072, true);
  gemm("ffn2", 1, sequence, 3072, 768, true);
  gemm("square512", 1, 512, 512, 512, true);
  gemm("square1024", 1, 1024, 1024, 1024, true);
  gemm("square2048", 1, 2048, 2048, 2048, true);
  gemm("square1024var", 1, 1024, 1024, 1024, false);
  gemm("decode", 1, 1, 4096, 4096, true);
  return layers;
}

}  // namespace hpu::bench
