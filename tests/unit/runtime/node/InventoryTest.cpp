// SPDX-License-Identifier: Apache-2.0
#include "runtime/node/Inventory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

namespace hpu::node {
namespace {

using ::testing::HasSubstr;

/// A setting for the time of a test.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, had_ = true;
    ::setenv(name, value, 1);
  }
  ~Setting() { had_ ? ::setenv(name_, old_.c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

TEST(Inventory, IdentityIsASettingThatIsChecked) {
  {
    Setting node("HPU_NODE", "rack-7.node_3");
    EXPECT_EQ(identity().value(), "rack-7.node_3");
  }
  for (const char* bad : {"a/b", "two words", "\xc3\xa4", "a\nb"}) {
    Setting node("HPU_NODE", bad);
    EXPECT_EQ(identity().status().code(), StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(identity().status().message(), HasSubstr("HPU_NODE=")) << bad;
  }
  Setting node("HPU_NODE", std::string(65, 'x').c_str());
  EXPECT_FALSE(identity().ok());
}

TEST(Inventory, SlotsAreDistinctAndDependOnTheIdentityAlone) {
  std::set<std::string> addresses, uuids, serials;
  std::set<uint32_t> modules;
  std::string last;
  for (int i = 0; i < kDevices; ++i) {
    Slot a = slot("a", i);
    EXPECT_LT(last, a.pciAddress) << "the index is the order of PCI addresses";
    last = a.pciAddress;
    EXPECT_LT(a.moduleId, 8u);
    modules.insert(a.moduleId);
    addresses.insert(a.pciAddress);
    for (const char* node : {"a", "b"}) {
      uuids.insert(slot(node, i).uuid);
      serials.insert(slot(node, i).serial);
    }
    EXPECT_EQ(slot("a", i).uuid, a.uuid);
  }
  EXPECT_EQ(modules.size(), 8u);
  EXPECT_EQ(addresses.size(), 8u);
  EXPECT_EQ(uuids.size(), 16u);
  EXPECT_EQ(serials.size(), 16u);
}

TEST(Inventory, OptionsNameADeviceInFourWays) {
  DeviceOptions options;
  EXPECT_EQ(requestedIndex(options).value(), kAnyDevice);
  options.index = 5;
  EXPECT_EQ(requestedIndex(options).value(), 5);
  for (int i = 0; i < kDevices; ++i) {
    DeviceOptions byModule, byAddress, byShortAddress;
    byModule.moduleId = static_cast<int>(slot("0", i).moduleId);
    byAddress.pciAddress = slot("0", i).pciAddress;
    byShortAddress.pciAddress = slot("0", i).pciAddress.substr(5);
    EXPECT_EQ(requestedIndex(byModule).value(), i);
    EXPECT_EQ(requestedIndex(byAddress).value(), i);
    EXPECT_EQ(requestedIndex(byShortAddress).value(), i);
  }
  DeviceOptions upper;
  upper.pciAddress = "0000:B3:00.0";
  EXPECT_EQ(requestedIndex(upper).value(), 6);
}

TEST(Inventory, WrongNamesAreRefusedWithWhatThereIs) {
  DeviceOptions options;
  options.index = 8;
  EXPECT_EQ(requestedIndex(options).status().code(), StatusCode::kNotFound);
  options = {};
  options.moduleId = 8;
  EXPECT_EQ(requestedIndex(options).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(requestedIndex(options).status().message(), HasSubstr("6 (device 0)"));
  options = {};
  options.pciAddress = "0000:00:1f.2";
  EXPECT_EQ(requestedIndex(options).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(requestedIndex(options).status().message(), HasSubstr("0000:b4:00.0"));
  options = {};
  options.index = 0;
  options.pciAddress = "0000:1a:00.0";
  EXPECT_EQ(requestedIndex(options).status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(requestedIndex(options).status().message(), HasSubstr("0 by index and 1 by PCI"));
}

TEST(Inventory, SettingFixesTheTypeOfAllDevices) {
  EXPECT_EQ(targetOf(Target::kGaudi1, true).value(), Target::kGaudi1);
  Setting type("HPU_NODE_TARGET", "gaudi3");
  EXPECT_EQ(targetOf(Target::kGaudi3, true).value(), Target::kGaudi3);
  EXPECT_EQ(targetOf(Target::kGaudi2, true).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(targetOf(Target::kGaudi2, false).value(), Target::kGaudi3);
  EXPECT_EQ(freeDevice("0", 0)->name, "HL-325");
}

}  // namespace
}  // namespace hpu::node
