// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/graph/GuidList.h"

#include <gtest/gtest.h>

#include "bindings/synapse/graph/DataTypes.h"

namespace hpu::synapse {
namespace {

std::string baseOf(std::string_view guid) {
  auto parsed = parseGuid(guid);
  return parsed.ok() ? std::string(parsed->info->name) : parsed.status().toString();
}

TEST(GuidList, NamesAreSortedAndDifferent) {
  auto all = allGuids();
  for (size_t i = 1; i < all.size(); ++i) EXPECT_LT(all[i - 1].name, all[i].name);
  for (const GuidInfo& info : all) {
    EXPECT_LE(info.minInputs, info.maxInputs) << info.name;
    EXPECT_LE(info.minOutputs, info.maxOutputs) << info.name;
  }
}

TEST(GuidList, HasTheThirtyFiveApiNodes) {
  int count = 0;
  for (const GuidInfo& info : allGuids()) count += info.kind == GuidClass::kApi;
  EXPECT_EQ(count, 35);
}

TEST(GuidList, SuffixGivesTheElementType) {
  auto parsed = parseGuid("relu_fwd_bf16");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->info->name, "relu_fwd");
  EXPECT_EQ(dataTypeName(parsed->type), "bfloat16");
  EXPECT_EQ(dataTypeName(parseGuid("sort_bwd_hf8")->type), "fp8_143");
}

TEST(GuidList, ForwardMayBeLeftOutOrAdded) {
  EXPECT_EQ(baseOf("add_f32"), "add_fwd");
  EXPECT_EQ(baseOf("add_fwd_f32"), "add_fwd");
  EXPECT_EQ(baseOf("not_fwd_i8"), "not");
  EXPECT_EQ(baseOf("not_i8"), "not");
}

TEST(GuidList, LettersMayBeCapitals) {
  EXPECT_EQ(baseOf("Spatial_Convolution"), "spatial_convolution");
  EXPECT_EQ(baseOf("ADD_FWD_BF16"), "add_fwd");
}

TEST(GuidList, ApiNodesTolerateASuffix) {
  EXPECT_EQ(baseOf("slice_f32"), "slice");
  EXPECT_EQ(baseOf("squeeze_i32"), "squeeze");
  EXPECT_EQ(baseOf("slice"), "slice");
}

TEST(GuidList, CastsNameBothTypes) {
  auto parsed = parseGuid("cast_f32_to_bf16");
  ASSERT_TRUE(parsed.ok()) << parsed.status().toString();
  EXPECT_EQ(parsed->info->name, "cast");
  EXPECT_EQ(dataTypeName(parsed->type), "float32");
  EXPECT_EQ(dataTypeName(parsed->to), "bfloat16");
  EXPECT_FALSE(parseGuid("cast_f32_to_f99").ok());
}

TEST(GuidList, KernelsNeedTheirSuffix) {
  auto parsed = parseGuid("relu_fwd");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(parsed.status().message().find("relu_fwd_f32"), std::string::npos);
  EXPECT_EQ(baseOf("topk"), "topk");
  EXPECT_EQ(baseOf("topk_i32"), "topk");
}

TEST(GuidList, UnknownNamesGetSimilarOnes) {
  auto parsed = parseGuid("spacial_convolution");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().code(), StatusCode::kUnimplemented);
  EXPECT_NE(parsed.status().message().find("spatial_convolution"), std::string::npos) << parsed.status().message();
  EXPECT_FALSE(parseGuid("").ok());
  EXPECT_FALSE(parseGuid("_").ok());
  EXPECT_FALSE(parseGuid("_f32").ok());
  EXPECT_FALSE(parseGuid(std::string(100000, 'a')).ok());
}

TEST(GuidList, InternalNamesAreRefused) {
  for (const char* name : {"memcpy_dma", "transpose_mme", "logical_split", "concat_internal"}) {
    auto parsed = parseGuid(name);
    ASSERT_FALSE(parsed.ok()) << name;
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument) << name;
  }
}

TEST(GuidList, InternalNamesThatProgramsUseAreAccepted) {
  for (const char* name : {"transpose_dma", "concat_logical_internal", "physical_concat", "serialize_dma", "wait",
                           "nop", "reduction", "static_reshape"})
    EXPECT_EQ(baseOf(name), name);
}

}  // namespace
}  // namespace hpu::synapse
