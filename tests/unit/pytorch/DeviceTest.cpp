// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/nn.h>
#include <torch/optim.h>
#include <torch/serialize.h>

#include <sstream>

#include "hpu_torch/hpu_torch.h"

namespace {

const torch::Device kCpu("cpu"), kHpu("hpu");

struct Tied : torch::nn::Module {
  Tied() {
    embedding = register_module("embedding", torch::nn::Embedding(7, 4));
    body = register_module("body", torch::nn::Linear(4, 4));
    norm = register_module("norm", torch::nn::BatchNorm1d(4));
    tied = register_parameter("tied", embedding->weight);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return torch::nn::functional::linear(norm(torch::tanh(body(embedding(x)))), tied);
  }
  torch::nn::Embedding embedding{nullptr};
  torch::nn::Linear body{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::Tensor tied;
};

TEST(LibtorchDevice, TensorsComputeOnHpu) {
  ASSERT_EQ(hpu_torch::numDevices(), 8);
  torch::Tensor x = torch::arange(12, kHpu).view({3, 4}).to(torch::kFloat);
  EXPECT_TRUE(x.is_hpu());
  EXPECT_EQ(x.device(), torch::Device("hpu:0"));
  EXPECT_TRUE(torch::equal((x.t().matmul(x) + 1).cpu(), x.cpu().t().matmul(x.cpu()) + 1));
  EXPECT_EQ(x.sum().item<float>(), 66);
  EXPECT_TRUE(torch::equal(x.to(torch::Device("hpu:5")).cpu(), x.cpu()));
}

TEST(LibtorchDevice, AModuleMovesInPlaceWithItsTiesAndItsOptimiser) {
  std::vector<double> losses[2];
  for (bool onHpu : {false, true}) {
    torch::manual_seed(4);
    Tied net;
    ASSERT_TRUE(net.tied.is_same(net.embedding->weight));
    torch::optim::SGD optimiser(net.parameters(), torch::optim::SGDOptions(0.5).momentum(0.9));
    torch::Tensor x = torch::arange(7);
    torch::nn::functional::cross_entropy(net.forward(x), x).backward();
    optimiser.zero_grad();
    if (onHpu) {
      hpu_torch::moveTo(net, kHpu);
      x = x.to(kHpu);
    }
    EXPECT_TRUE(net.tied.is_same(net.embedding->weight));
    EXPECT_EQ(net.norm->running_mean.device().is_hpu(), onHpu);
    for (int step = 0; step < 5; ++step) {
      torch::Tensor loss = torch::nn::functional::cross_entropy(net.forward(x), x);
      losses[onHpu].push_back(loss.item<double>());
      loss.backward();
      EXPECT_EQ(net.embedding->weight.grad().device().is_hpu(), onHpu);
      optimiser.step();
      optimiser.zero_grad();
    }
    if (onHpu) {
      hpu_torch::moveTo(net, kCpu);
      EXPECT_TRUE(net.tied.device().is_cpu() && net.tied.is_same(net.embedding->weight));
      net.forward(torch::arange(7)).sum().backward();
    }
  }
  for (size_t i = 0; i < losses[0].size(); ++i) EXPECT_NEAR(losses[0][i], losses[1][i], 1e-5 * losses[0][i]);
  EXPECT_LT(losses[1].back(), losses[1].front());
}

TEST(LibtorchDevice, FilesGoBetweenDevices) {
  torch::nn::Linear net(3, 2);
  const torch::Tensor expected = net->weight.detach().clone();
  hpu_torch::moveTo(*net, kHpu);
  std::stringstream file;
  torch::serialize::OutputArchive written;
  net->save(written);
  written.save_to(file);
  torch::nn::Linear onCpu(3, 2), onHpu(3, 2);
  hpu_torch::moveTo(*onHpu, torch::Device("hpu:2"));
  // libtorch's archives load to a module's own device only.
  auto load = [&](torch::nn::Linear& into, torch::Device device) {
    file.seekg(0);
    torch::serialize::InputArchive read;
    read.load_from(file, device);
    into->load(read);
    EXPECT_TRUE(torch::equal(into->weight.detach().cpu(), expected));
  };
  load(onCpu, kCpu);
  load(onHpu, torch::Device("hpu:2"));
  EXPECT_EQ(onHpu->weight.device(), torch::Device("hpu:2"));
}

TEST(LibtorchDevice, GeneratorsGiveTheCpusNumbers) {
  at::Generator generator = hpu_torch::createGenerator();
  generator.set_current_seed(11);
  torch::Tensor drawn = torch::randn({9}, generator, torch::TensorOptions(kHpu));
  torch::manual_seed(11);
  EXPECT_TRUE(torch::equal(drawn.cpu(), torch::randn({9})));
  hpu_torch::manualSeed(11);
  EXPECT_TRUE(torch::equal(torch::randn({9}, kHpu).cpu(), drawn.cpu()));
  EXPECT_EQ(generator.clone().current_seed(), 11u);
}

TEST(LibtorchDevice, MemoryGoesBack) {
  {
    torch::Tensor big = torch::ones({64 << 20}, torch::TensorOptions(kHpu).dtype(torch::kByte));
  }
  EXPECT_GE(hpu_torch::emptyCache(), 64 << 20);
  hpu_torch::synchronizeDevice();
  EXPECT_THROW(torch::empty({int64_t{1} << 50}, kHpu), c10::OutOfMemoryError);
  EXPECT_THROW(hpu_torch::moveTensor(torch::ones(2), torch::Device("hpu:8")), c10::Error);
}

}  // namespace
