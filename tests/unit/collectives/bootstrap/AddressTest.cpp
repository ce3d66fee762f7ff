// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/Address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/Settings.h"
#include "hpu/collectives.h"

namespace hpu::collectives {
namespace {

using testing::HasSubstr;

TEST(Address, ReadsAndWritesBothFamilies) {
  for (const char* text : {"10.1.2.3:4000", "[fd00::1]:65535", "[::1]:1"})
    EXPECT_EQ(parseAddress(text, "it").value().text(), text);
  for (const char* text : {"10.1.2.3", "10.1.2.3:0", "10.1.2.3:70000", "fd00::1:5", "[fd00::1]", "host:5", ":5", "",
                           "10.1.2:5", "[fe80::1%nosuch]:5", "1.2.3.4:5x"}) {
    auto address = parseAddress(text, "HCCL_COMM_ID");
    EXPECT_EQ(address.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(address.status().message(), HasSubstr("HCCL_COMM_ID is '")) << text;
  }
}

TEST(Address, SurvivesTheSystemsForm) {
  for (const char* text : {"127.0.0.1:4000", "[fe80::1%3]:9"}) {
    Address address = parseAddress(text, "it").value();
    sockaddr_storage storage;
    toSockaddr(address, storage);
    EXPECT_EQ(fromSockaddr(storage).value(), address);
  }
}

TEST(UniqueId, CarriesItsAddressAndNoticesDamage) {
  CoordinatorId id{parseAddress("[fd00::7]:4000", "it").value(), 0x123456789abcdef0, 0x42, true};
  UniqueId bytes = encodeId(id);
  EXPECT_FALSE(isZero(bytes));
  CoordinatorId back = decodeId(bytes).value();
  EXPECT_EQ(back.address, id.address);
  EXPECT_EQ(back.nonce, id.nonce);
  EXPECT_EQ(back.label, id.label);
  EXPECT_TRUE(back.fromEnvironment);
  for (size_t i = 0; i < sizeof bytes.bytes; ++i) {
    UniqueId damaged = bytes;
    damaged.bytes[i] ^= 1;
    EXPECT_EQ(decodeId(damaged).status().code(), StatusCode::kInvalidArgument) << i;
  }
  EXPECT_TRUE(isZero(UniqueId{}));
}

TEST(Interface, TakesTheFirstPrefixThatFits) {
  Address loopback = chooseInterface("nosuch, lo").value();
  EXPECT_TRUE(loopback.text() == "127.0.0.1:0" || loopback.text() == "[::1]:0");
  auto none = chooseInterface("nosuch");
  EXPECT_EQ(none.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(none.status().message(), HasSubstr("HCCL_SOCKET_IFNAME 'nosuch'"));
  EXPECT_THAT(none.status().message(), HasSubstr("there are: "));
  EXPECT_TRUE(chooseInterface("").ok());
}

TEST(Id, OfTheEnvironmentIsASecretWithASecret) {
  ASSERT_TRUE(settings::set(Setting::HCCL_COMM_ID, "127.0.0.1:4711").ok());
  const CoordinatorId guessable = environmentId().value();
  ASSERT_TRUE(settings::set(Setting::HPU_COMM_SECRET, "correct horse").ok());
  const CoordinatorId secret = environmentId().value();
  ASSERT_TRUE(settings::set(Setting::HPU_COMM_SECRET, "battery staple").ok());
  const CoordinatorId other = environmentId().value();
  ASSERT_TRUE(settings::set(Setting::HPU_COMM_SECRET, "").ok());
  ASSERT_TRUE(settings::set(Setting::HCCL_COMM_ID, "").ok());
  EXPECT_NE(guessable.nonce, secret.nonce);
  EXPECT_NE(secret.nonce, other.nonce);
  // What others may see says nothing of it, and goes with the id.
  EXPECT_EQ(secret.label, other.label);
  EXPECT_NE(secret.label, secret.nonce);
  const CoordinatorId back = decodeId(encodeId(secret)).value();
  EXPECT_EQ(back.nonce, secret.nonce);
  EXPECT_EQ(back.label, secret.label);
  const UniqueId one = createUniqueId().value(), two = createUniqueId().value();
  EXPECT_NE(decodeId(one)->label, decodeId(two)->label);
  EXPECT_NE(decodeId(one)->label, decodeId(one)->nonce);
}

}  // namespace
}  // namespace hpu::collectives
