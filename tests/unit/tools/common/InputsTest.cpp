// SPDX-License-Identifier: Apache-2.0
#include "tools/common/Inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "tools/common/TensorProtoIo.h"
#include "unit/base/TemporaryFolder.h"

namespace {

using hpu::ElementType;
using hpu::kDynamic;
using hpu::tools::HostTensor;
using ::testing::HasSubstr;

HostTensor named(const std::string& name, const hpu::TensorType& type) {
  auto tensor = hpu::tools::makeTensor(type);
  tensor->name = name;
  return *tensor;
}

TEST(Inputs, RandomNumbersAreTheSameEverywhereAndInTheirRange) {
  auto a = hpu::tools::randomTensor({ElementType::kF32, {1000}}, 7);
  ASSERT_TRUE(a.ok());
  // SplitMix64 with seed 7, first output 0x63CBE1E459320DD7 >> 40 = 0x63CBE1.
  EXPECT_EQ(a->number(0), static_cast<float>(-1 + 2 * (0x63CBE1 * 0x1p-24)));
  double least = 1, most = -1;
  for (int64_t i = 0; i < a->count(); ++i) {
    least = std::min(least, a->number(i));
    most = std::max(most, a->number(i));
  }
  EXPECT_GE(least, -1);
  EXPECT_LT(most, 1);
  EXPECT_LT(least, -0.9);
  EXPECT_GT(most, 0.9);
  auto ids = hpu::tools::randomTensor({ElementType::kI64, {1000}}, 7, std::pair(10.0, 13.0));
  ASSERT_TRUE(ids.ok());
  bool seen[3] = {};
  for (int64_t i = 0; i < ids->count(); ++i) {
    ASSERT_GE(ids->number(i), 10);
    ASSERT_LE(ids->number(i), 12);
    seen[static_cast<int>(ids->number(i)) - 10] = true;
  }
  EXPECT_TRUE(seen[0] && seen[1] && seen[2]);
}

TEST(Inputs, ParsesSourcesAndRefusesOthers) {
  EXPECT_EQ(hpu::tools::parseInputSpec("x=@a.npy")->name, "x");
  EXPECT_EQ(hpu::tools::parseInputSpec("rand:3")->name, "");
  EXPECT_FALSE(hpu::tools::parseInputSpec("x=a.npy").ok());
  EXPECT_FALSE(hpu::tools::parseInputSpec("=zeros").ok());
}

TEST(Inputs, AFreeDimensionNeedsAFileOrAShape) {
  hpu::TensorInfo input{"x", {ElementType::kF32, {kDynamic, 3}}};
  auto tensor = hpu::tools::tensorFrom({"x", "ones"}, input);
  ASSERT_FALSE(tensor.ok());
  EXPECT_THAT(tensor.status().message(), HasSubstr("--shape x="));
}

TEST(Inputs, MatchesByNameWhenAllNamesAreThereElseByPosition) {
  std::vector<hpu::TensorInfo> inputs = {{"a", {ElementType::kF32, {2}}}, {"b", {ElementType::kF32, {kDynamic}}}};
  auto swapped = hpu::tools::matchInputs(
      inputs, {named("b", {ElementType::kF32, {5}}), named("a", {ElementType::kF32, {2}})}, "data");
  ASSERT_TRUE(swapped.ok()) << swapped.status().message();
  EXPECT_EQ((*swapped)[1].type.shape, hpu::Shape{5});
  auto byPosition = hpu::tools::matchInputs(
      inputs, {named("", {ElementType::kF32, {2}}), named("", {ElementType::kF32, {4}})}, "data");
  ASSERT_TRUE(byPosition.ok());
  auto wrong = hpu::tools::matchInputs(
      inputs, {named("", {ElementType::kF32, {3}}), named("", {ElementType::kF32, {4}})}, "data");
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.status().message(), HasSubstr("input 0 'a' is 2xf32, but data has 3xf32"));
  EXPECT_FALSE(hpu::tools::matchInputs(inputs, {}, "data").ok());
}

TEST(Inputs, ReadsADataFolderAndTheOnesBelowIt) {
  hpu::base::TemporaryFolder folder;
  EXPECT_THAT(hpu::tools::readDataSets(folder.path()).status().message(), HasSubstr("no input_0.pb"));
  for (const char* set : {"test_data_set_0", "test_data_set_1"}) {
    std::string path = folder.path() + "/" + set;
    std::filesystem::create_directory(path);
    ASSERT_TRUE(hpu::tools::writeTensorProto(path + "/input_0.pb", named("x", {ElementType::kF32, {2}})).ok());
  }
  std::string first = folder.path() + "/test_data_set_0";
  ASSERT_TRUE(hpu::tools::writeTensorProto(first + "/output_0.pb", named("y", {ElementType::kF32, {1}})).ok());
  auto sets = hpu::tools::readDataSets(folder.path());
  ASSERT_TRUE(sets.ok()) << sets.status().message();
  ASSERT_EQ(sets->size(), 2u);
  EXPECT_EQ((*sets)[0].outputs.size(), 1u);
  EXPECT_TRUE((*sets)[1].outputs.empty());
  EXPECT_EQ(hpu::tools::readDataSets(first)->size(), 1u);
}

TEST(Inputs, ReadsLabelsFromATextFileAndNamesTheLineThatIsWrong) {
  hpu::base::TemporaryFolder folder;
  std::string path = folder.file("labels.txt");
  std::ofstream(path) << "8\n2\r\n\n10\n";
  auto labels = hpu::tools::readLabels(path);
  ASSERT_TRUE(labels.ok()) << labels.status().message();
  EXPECT_EQ(labels->type.toString(), "3xi64");
  EXPECT_EQ(labels->number(2), 10);
  std::ofstream(path) << "8\ncat\n";
  EXPECT_THAT(hpu::tools::readLabels(path).status().message(), HasSubstr("line 2: 'cat'"));
}

}  // namespace
