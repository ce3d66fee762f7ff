// SPDX-License-Identifier: Apache-2.0
// The library's life, statuses, configuration and versions, through the C API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <thread>

#include "habanalabs/hpu_synapse_ext.h"
#include "habanalabs/synapse_api.h"

namespace {

using testing::HasSubstr;

TEST(SynapseLife, InitializesOnceAndIsDestroyedOnce) {
  EXPECT_EQ(synInitialize(), synSuccess);
  EXPECT_EQ(synInitialize(), synSuccess) << "a second call has no effect";
  EXPECT_EQ(synDestroy(), synSuccess);
  EXPECT_EQ(synDestroy(), synUninitialized);
  EXPECT_THAT(hpuSynLastError(), HasSubstr("synDestroy: the library is not initialized"));
  EXPECT_EQ(hpuSynLastStatus(), synUninitialized);
}

TEST(SynapseLife, SettingsSayWhatASecondCallGives) {
  ASSERT_EQ(synConfigurationSet("HABANA_DISABLE_DOUBLE_SYN_INITIALIZE", "1"), synSuccess);
  ASSERT_EQ(synConfigurationSet("HABANA_DISABLE_DOUBLE_SYN_DESTROY", "0"), synSuccess);
  EXPECT_EQ(synInitialize(), synSuccess);
  EXPECT_EQ(synInitialize(), synAlreadyInitialized);
  EXPECT_EQ(synDestroy(), synSuccess);
  EXPECT_EQ(synDestroy(), synSuccess);
  // An empty value takes a setting back.
  ASSERT_EQ(synConfigurationSet("HABANA_DISABLE_DOUBLE_SYN_INITIALIZE", ""), synSuccess);
  ASSERT_EQ(synConfigurationSet("HABANA_DISABLE_DOUBLE_SYN_DESTROY", ""), synSuccess);
  EXPECT_EQ(synDestroy(), synUninitialized);
}

TEST(SynapseLife, OtherCallsNeedIt) {
  uint32_t size = 0;
  EXPECT_EQ(synTPCLibraryGetVersionSize(&size), synUninitialized);
  EXPECT_THAT(hpuSynLastError(), HasSubstr("call synInitialize first"));
}

TEST(SynapseStatus, EveryStatusHasItsOwnDescription) {
  std::set<std::string> seen;
  for (int status = synSuccess; status <= synFailTpcKernels; ++status) {
    char text[STATUS_DESCRIPTION_MAX_SIZE];
    ASSERT_EQ(synStatusGetBriefDescription(static_cast<synStatus>(status), text, sizeof(text)), synSuccess);
    EXPECT_GT(std::strlen(text), 6u) << status;
    EXPECT_LT(std::strlen(text), size_t{STATUS_DESCRIPTION_MAX_SIZE} - 1) << "cut: " << text;
    EXPECT_TRUE(seen.insert(text).second) << text;
  }
}

TEST(SynapseStatus, ADescriptionIsCutToTheBuffer) {
  char text[6] = "xxxxx";
  ASSERT_EQ(synStatusGetBriefDescription(synBusy, text, 4), synSuccess);
  EXPECT_STREQ(text, "Not");
  EXPECT_EQ(text[4], 'x') << "written past the end";
}

TEST(SynapseStatus, DescriptionsOfNothingAreErrors) {
  char text[STATUS_DESCRIPTION_MAX_SIZE];
  EXPECT_EQ(synStatusGetBriefDescription(static_cast<synStatus>(48), text, sizeof(text)), synInvalidArgument);
  EXPECT_THAT(hpuSynLastError(), HasSubstr("48"));
  EXPECT_EQ(synStatusGetBriefDescription(static_cast<synStatus>(-1), text, sizeof(text)), synInvalidArgument);
  EXPECT_EQ(synStatusGetBriefDescription(synSuccess, nullptr, 10), synInvalidArgument);
  EXPECT_EQ(synStatusGetBriefDescription(synSuccess, text, 0), synInvalidArgument);
}

TEST(SynapseLastError, IsOfTheThreadAndStaysUntilItsNextFailure) {
  EXPECT_EQ(synStatusGetBriefDescription(synSuccess, nullptr, 10), synInvalidArgument);
  EXPECT_STREQ(hpuSynLastError(), "synStatusGetBriefDescription: statusDescription is null");
  std::thread([] {
    EXPECT_STREQ(hpuSynLastError(), "");
    EXPECT_EQ(hpuSynLastStatus(), synSuccess);
    EXPECT_EQ(synConfigurationSet(nullptr, "1"), synInvalidArgument);
    EXPECT_THAT(hpuSynLastError(), HasSubstr("synConfigurationSet: configurationName is null"));
  }).join();
  char text[STATUS_DESCRIPTION_MAX_SIZE];
  ASSERT_EQ(synStatusGetBriefDescription(synFail, text, sizeof(text)), synSuccess);
  EXPECT_STREQ(hpuSynLastError(), "synStatusGetBriefDescription: statusDescription is null");
}

TEST(SynapseConfiguration, SetsTheSettingsOfOpenHpu) {
  char text[64];
  ASSERT_EQ(synConfigurationGet("HPU_CACHE_BYTES", text, sizeof(text)), synSuccess);
  EXPECT_STREQ(text, "16G");
  ASSERT_EQ(synConfigurationSet("HPU_CACHE_BYTES", "3M"), synSuccess);
  ASSERT_EQ(synConfigurationGet("HPU_CACHE_BYTES", text, sizeof(text)), synSuccess);
  EXPECT_STREQ(text, "3M");
  EXPECT_EQ(synConfigurationSet("HPU_CACHE_BYTES", "many"), synInvalidArgument);
  EXPECT_THAT(hpuSynLastError(), HasSubstr("HPU_CACHE_BYTES=many is not valid"));
  ASSERT_EQ(synConfigurationGet("HPU_CACHE_BYTES", text, sizeof(text)), synSuccess);
  EXPECT_STREQ(text, "3M") << "a bad value changed it";
  ASSERT_EQ(synConfigurationSet("HPU_CACHE_BYTES", ""), synSuccess);
  EXPECT_EQ(synConfigurationSet("HPU_NO_SUCH_SETTING", "1"), synInvalidArgument);
}

TEST(SynapseConfiguration, KeepsTheNamesOfSynapse) {
  char text[64];
  ASSERT_EQ(synConfigurationGet("SRAM_SLICER_MAX_CAPACITY_BYTES", text, sizeof(text)), synSuccess);
  EXPECT_STREQ(text, "0") << "what it steers is not there";
  ASSERT_EQ(synConfigurationSet("SRAM_SLICER_MAX_CAPACITY_BYTES", "1000"), synSuccess);
  ASSERT_EQ(synConfigurationGet("SRAM_SLICER_MAX_CAPACITY_BYTES", text, sizeof(text)), synSuccess);
  EXPECT_STREQ(text, "1000");
  setenv("SYNAPSE_TEST_OF_THE_ENVIRONMENT", "here", 1);
  ASSERT_EQ(synConfigurationGet("SYNAPSE_TEST_OF_THE_ENVIRONMENT", text, sizeof(text)), synSuccess);
  EXPECT_STREQ(text, "here");
}

TEST(SynapseConfiguration, GivesBackWhatItWasGiven) {
  for (const char* name : {"ENABLE_EXPERIMENTAL_FLAGS", "EXP_FLAGS", "RUN_TPC_FUSER", "HBM_GLOBAL_MEM_SIZE_MEGAS",
                           "TPC_ENGINES_ENABLED_MASK", "HCCL_GAUDI_DIRECT", "ENABLE_GC_NODES_VALIDATION_BY_OPS_DB",
                           "A_NAME_THAT_NOBODY_KNOWS"})
    for (const char* value : {"true", "false", "0x7f", "12345678901234567890", "", "two words"}) {
      char text[64] = "before";
      ASSERT_EQ(synConfigurationSet(name, value), synSuccess) << name;
      ASSERT_EQ(synConfigurationGet(name, text, sizeof(text)), synSuccess) << name;
      EXPECT_STREQ(text, value) << name;
    }
}

TEST(SynapseConfiguration, WhatChangesResultsIsASetting) {
  for (const char* name : {"GAUDI_ENABLE_SERIALIZE_DESERIALIZE_PASS", "CHECK_SECTION_OVERLAP_CHECK"}) {
    char text[16];
    ASSERT_EQ(synConfigurationGet(name, text, sizeof(text)), synSuccess) << name;
    EXPECT_STREQ(text, "1");
    for (const char* value : {"false", "False", "FALSE", "0", "true", "True", "1"}) {
      ASSERT_EQ(synConfigurationSet(name, value), synSuccess) << hpuSynLastError();
      ASSERT_EQ(synConfigurationGet(name, text, sizeof(text)), synSuccess);
      EXPECT_STREQ(text, value);
    }
    EXPECT_EQ(synConfigurationSet(name, "perhaps"), synInvalidArgument);
    ASSERT_EQ(synConfigurationGet(name, text, sizeof(text)), synSuccess);
    EXPECT_STREQ(text, "1") << "a bad value changed it";
    ASSERT_EQ(synConfigurationSet(name, ""), synSuccess);
  }
}

/// Programs print and parse the buffer without looking at the status.
TEST(SynapseConfiguration, TheBufferIsWrittenWhateverTheStatusIs) {
  char text[8] = "before";
  EXPECT_EQ(synConfigurationGet("NOT_SET_BY_ANYBODY", text, sizeof(text)), synUnavailable);
  EXPECT_STREQ(text, "");
  std::strcpy(text, "before");
  EXPECT_EQ(synConfigurationGet(nullptr, text, sizeof(text)), synInvalidArgument);
  EXPECT_STREQ(text, "");
  std::strcpy(text, "before");
  EXPECT_EQ(synConfigurationGet("no name", text, sizeof(text)), synUnavailable);
  EXPECT_STREQ(text, "");
  ASSERT_EQ(synConfigurationSet("A_LONG_VALUE", "0123456789"), synSuccess);
  EXPECT_EQ(synConfigurationGet("A_LONG_VALUE", text, 5), synInvalidArgument);
  EXPECT_STREQ(text, "0123") << "as much as there is room for";
  std::strcpy(text, "before");
  EXPECT_EQ(synConfigurationGet("A_LONG_VALUE", text, 0), synInvalidArgument);
  EXPECT_STREQ(text, "before") << "no byte of it is the library's";
}

TEST(SynapseConfiguration, RefusesWhatIsNoNameAndWhatDoesNotFit) {
  char text[4];
  EXPECT_EQ(synConfigurationSet("two words", "1"), synInvalidArgument);
  EXPECT_EQ(synConfigurationSet("", "1"), synInvalidArgument);
  EXPECT_EQ(synConfigurationSet("NAME", nullptr), synInvalidArgument);
  EXPECT_EQ(synConfigurationGet(nullptr, text, sizeof(text)), synInvalidArgument);
  EXPECT_EQ(synConfigurationGet("NAME", nullptr, 4), synInvalidArgument);
  ASSERT_EQ(synConfigurationSet("LONG_VALUE", "12345"), synSuccess);
  EXPECT_EQ(synConfigurationGet("LONG_VALUE", text, sizeof(text)), synInvalidArgument);
  EXPECT_THAT(hpuSynLastError(), HasSubstr("needs 6 bytes and the buffer has 4"));
  EXPECT_EQ(synConfigurationGet("two words", text, sizeof(text)), synUnavailable);
}

TEST(SynapseVersions, AreThoseOfThisBuild) {
  char text[128];
  ASSERT_EQ(synDriverGetVersion(text, sizeof(text)), synSuccess) << "works before synInitialize";
  EXPECT_THAT(text, HasSubstr("OpenHPU"));
  EXPECT_EQ(synDriverGetVersion(nullptr, 128), synInvalidArgument);
  EXPECT_EQ(synDriverGetVersion(text, 4), synInvalidArgument);
  EXPECT_EQ(synDriverGetVersion(text, -1), synInvalidArgument);

  ASSERT_EQ(synInitialize(), synSuccess);
  uint32_t size = 0;
  ASSERT_EQ(synTPCLibraryGetVersionSize(&size), synSuccess);
  ASSERT_EQ(size, 1u);
  const char* library = nullptr;
  uint32_t version = 0;
  ASSERT_EQ(synTPCLibraryGetVersions(&library, &version), synSuccess);
  EXPECT_THAT(library, HasSubstr("libhpu_synapse_compiler"));
  EXPECT_GT(version, 0u);
  EXPECT_EQ(synTPCLibraryGetVersionSize(nullptr), synInvalidArgument);
  EXPECT_EQ(synTPCLibraryGetVersions(nullptr, &version), synInvalidArgument);
  EXPECT_EQ(synTPCLibraryGetVersions(&library, nullptr), synInvalidArgument);
  EXPECT_EQ(synDestroy(), synSuccess);
}

}  // namespace
