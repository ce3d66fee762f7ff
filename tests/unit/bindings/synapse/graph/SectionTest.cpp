// SPDX-License-Identifier: Apache-2.0
// Sections: properties, and that they are fixed once a tensor is assigned.
#include "tests/unit/bindings/synapse/graph/GraphFixture.h"

namespace hpu::testing {
namespace {

class SynapseSection : public GraphFixture {
 protected:
  void SetUp() override {
    GraphFixture::SetUp();
    ASSERT_EQ(synSectionCreate(&section, 0, graph), synSuccess);
  }
  synSectionHandle section = nullptr;
};

TEST_F(SynapseSection, CreationChecksItsArguments) {
  synSectionHandle other = nullptr;
  EXPECT_EQ(synSectionCreate(nullptr, 0, graph), synInvalidArgument);
  EXPECT_EQ(synSectionCreate(&other, 0, nullptr), synInvalidArgument);
  EXPECT_SYN_ERROR(synSectionCreate(&other, 0x100, graph), synInvalidArgument, "0x100");
  EXPECT_EQ(synSectionCreate(&other, MEMORY_ATTRIBUTE_DEVICE | MEMORY_ATTRIBUTE_PERSISTENT, graph), synSuccess);
}

TEST_F(SynapseSection, OutlivesItsGraphUntilDestroyed) {
  ASSERT_EQ(synGraphDestroy(graph), synSuccess);
  EXPECT_EQ(synSectionDestroy(section), synSuccess);
  EXPECT_SYN_ERROR(synSectionDestroy(section), synInvalidArgument, "stale");
}

TEST_F(SynapseSection, IsPersistentUntilToldOtherwise) {
  bool value = false;
  ASSERT_EQ(synSectionGetPersistent(section, &value), synSuccess);
  EXPECT_TRUE(value);
  ASSERT_EQ(synSectionSetPersistent(section, false), synSuccess);
  ASSERT_EQ(synSectionGetPersistent(section, &value), synSuccess);
  EXPECT_FALSE(value);
  EXPECT_EQ(synSectionGetPersistent(section, nullptr), synInvalidArgument);
  EXPECT_EQ(synSectionSetPersistent(nullptr, true), synInvalidArgument);
}

TEST_F(SynapseSection, GroupConstAndRmwAreReadBack) {
  uint64_t group = 1;
  ASSERT_EQ(synSectionGetGroup(section, &group), synSuccess);
  EXPECT_EQ(group, 0u);
  ASSERT_EQ(synSectionSetGroup(section, 100), synSuccess);
  ASSERT_EQ(synSectionGetGroup(section, &group), synSuccess);
  EXPECT_EQ(group, 100u);
  EXPECT_SYN_ERROR(synSectionSetGroup(section, 300), synUnsupported, "255");
  EXPECT_EQ(synSectionGetGroup(section, nullptr), synInvalidArgument);

  bool value = true;
  ASSERT_EQ(synSectionGetConst(section, &value), synSuccess);
  EXPECT_FALSE(value);
  ASSERT_EQ(synSectionSetConst(section, true), synSuccess);
  ASSERT_EQ(synSectionGetConst(section, &value), synSuccess);
  EXPECT_TRUE(value);
  EXPECT_EQ(synSectionGetConst(section, nullptr), synInvalidArgument);
  EXPECT_EQ(synSectionSetConst(nullptr, true), synInvalidArgument);

  ASSERT_EQ(synSectionGetRMW(section, &value), synSuccess);
  EXPECT_FALSE(value);
  ASSERT_EQ(synSectionSetRMW(section, true), synSuccess);
  ASSERT_EQ(synSectionGetRMW(section, &value), synSuccess);
  EXPECT_TRUE(value);
  EXPECT_EQ(synSectionGetRMW(section, nullptr), synInvalidArgument);
  EXPECT_EQ(synSectionSetRMW(nullptr, true), synInvalidArgument);
}

TEST_F(SynapseSection, PropertiesAreFixedOnceATensorIsAssigned) {
  persist(graph, makeTensor("x", {4}), section);
  EXPECT_SYN_ERROR(synSectionSetPersistent(section, false), synFail, "has tensors");
  EXPECT_EQ(synSectionSetGroup(section, 1), synFail);
  EXPECT_EQ(synSectionSetConst(section, true), synFail);
  EXPECT_EQ(synSectionSetRMW(section, true), synFail);
}

TEST_F(SynapseSection, PersistentReadModifyWriteIsRefused) {
  ASSERT_EQ(synSectionSetRMW(section, true), synSuccess);
  synTensor tensor = makeTensor("x", {4});
  EXPECT_SYN_ERROR(synTensorAssignToSection(tensor, section, 0), synUnsupported, "read-modify-write");
  ASSERT_EQ(synSectionSetPersistent(section, false), synSuccess);
  EXPECT_EQ(synTensorAssignToSection(tensor, section, 0), synSuccess) << hpuSynLastError();
}

TEST_F(SynapseSection, ReadModifyWriteSectionsFitTheSram) {
  ASSERT_EQ(synSectionSetRMW(section, true), synSuccess);
  ASSERT_EQ(synSectionSetPersistent(section, false), synSuccess);
  synTensor tensor = makeTensor("x", {4});
  ASSERT_EQ(synTensorAssignToSection(tensor, section, uint64_t{16} << 20), synSuccess);
  EXPECT_SYN_ERROR(addNode("memcpy", {tensor}, {makeTensor("y", {4})}), synFail, "read-modify-write");
}

}  // namespace
}  // namespace hpu::testing
