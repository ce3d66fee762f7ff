// SPDX-License-Identifier: Apache-2.0
#include "hpu_torch/autocast.h"

#include <gtest/gtest.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include <thread>

#include "hpu_torch/hpu_torch.h"

namespace {

const torch::Device kHpu("hpu");

TEST(Autocast, GuardsNestAndEnd) {
  const torch::Tensor x = torch::ones({4, 4}, kHpu);
  EXPECT_EQ(torch::mm(x, x).scalar_type(), torch::kFloat);
  {
    hpu_torch::AutocastGuard autocast;
    EXPECT_TRUE(hpu_torch::isAutocastEnabled());
    EXPECT_EQ(torch::mm(x, x).scalar_type(), torch::kBFloat16);
    {
      hpu_torch::AutocastGuard half(torch::kHalf);
      EXPECT_EQ(torch::mm(x, x).scalar_type(), torch::kHalf);
      hpu_torch::AutocastGuard off(torch::kHalf, false);
      EXPECT_EQ(torch::mm(x, x).scalar_type(), torch::kFloat);
    }
    EXPECT_EQ(torch::softmax(torch::mm(x, x), 1).scalar_type(), torch::kFloat);
    EXPECT_EQ(hpu_torch::autocastType(), torch::kBFloat16);
    bool isOnInAnotherThread = true;
    std::thread([&] { isOnInAnotherThread = hpu_torch::isAutocastEnabled(); }).join();
    EXPECT_FALSE(isOnInAnotherThread);
  }
  EXPECT_FALSE(hpu_torch::isAutocastEnabled());
  EXPECT_THROW(hpu_torch::AutocastGuard(torch::kDouble), c10::ValueError);
  EXPECT_FALSE(hpu_torch::isAutocastEnabled());
}

TEST(Autocast, TrainsAModule) {
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(8, 16), torch::nn::ReLU(), torch::nn::Linear(16, 2));
  hpu_torch::moveTo(*net, kHpu);
  torch::optim::SGD optimiser(net->parameters(), 0.5);
  const torch::Tensor x = torch::randn({16, 8}).to(kHpu), target = (x.cpu().sum(1) > 0).to(torch::kLong).to(kHpu);
  double first = 0, last = 0;
  for (int step = 0; step < 20; ++step) {
    optimiser.zero_grad();
    torch::Tensor loss;
    {
      hpu_torch::AutocastGuard autocast;
      loss = torch::nn::functional::cross_entropy(net->forward(x), target);
    }
    loss.backward();
    optimiser.step();
    last = loss.item<double>();
    if (step == 0) first = last;
  }
  EXPECT_EQ(net->parameters()[0].grad().scalar_type(), torch::kFloat);
  EXPECT_LT(last, first / 2);
}

}  // namespace
