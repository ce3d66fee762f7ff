// SPDX-License-Identifier: Apache-2.0
#include "recipe/OpText.h"

#include <gtest/gtest.h>

namespace hpu::recipe {
namespace {

Program twoOps() {
  Program program;
  program.sections.resize(4);
  program.sourceNodes = {{"conv1", "Conv"}, {"relu1", "Relu"}, {"bn1", "BatchNormalization"}};
  Op product, copy;
  product.engine = Engine::kMme;
  product.name = "conv1+relu1";
  product.provenance = {0, 2, 1};
  product.mme.a.section = 0;
  product.mme.b.section = 1;
  product.mme.c.section = 2;
  copy.engine = Engine::kDma;
  copy.name = "store";
  copy.dma.src.section = 2;
  copy.dma.dst.section = 3;
  program.ops = {copy, product};
  program.hostOrder = {1, 0};
  return program;
}

TEST(OpText, NamesNodesAndTheEngine) {
  Program program = twoOps();
  EXPECT_EQ(opText(program, program.ops[1]), "node 'conv1' (Conv) and 2 more on the mme");
  EXPECT_EQ(opText(program, program.ops[0]), "op 'store' on the dma");
}

TEST(OpText, FindsTheFirstUserInTheHostsOrder) {
  Program program = twoOps();
  EXPECT_EQ(firstUser(program, 2), &program.ops[1]);
  EXPECT_EQ(firstUser(program, 3), &program.ops[0]);
  program.ops[0].dma.fill = true;
  program.ops[1].mme.c.section = 0;
  EXPECT_EQ(firstUser(program, 2), nullptr);
}

}  // namespace
}  // namespace hpu::recipe
