// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/Address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/Settings.h"
#include "collectives/bootstrap/Bootstrap.h"
#include "collectives/bootstrap/Reactor.h"
#include "hpu/collectives.h"
#include "tests/unit/collectives/bootstrap/Ranks.h"

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
  EXPECT_FALSE(isKnown(guessable.secret));
  EXPECT_TRUE(isKnown(secret.secret));
  EXPECT_NE(secret.secret, other.secret);
  // What others may see says nothing of it, and goes with the id.
  EXPECT_EQ(secret.label, other.label);
  EXPECT_EQ(secret.nonce, other.nonce);
  EXPECT_EQ(secret.nonce, guessable.nonce);
  const CoordinatorId back = decodeId(encodeId(secret)).value();
  EXPECT_EQ(back.nonce, secret.nonce);
  EXPECT_EQ(back.secret, secret.secret);
  EXPECT_EQ(back.label, secret.label);
  const UniqueId one = createUniqueId().value(), two = createUniqueId().value();
  EXPECT_NE(decodeId(one)->label, decodeId(two)->label);
  EXPECT_NE(decodeId(one)->label, decodeId(one)->nonce);
  EXPECT_NE(decodeId(one)->secret, decodeId(two)->secret);
}

/// Gives settings for a test and takes them back.
class Given {
 public:
  Given(Setting setting, const std::string& text) : setting_(setting) {
    EXPECT_TRUE(settings::set(setting, text).ok());
  }
  ~Given() { EXPECT_TRUE(settings::set(setting_, "").ok()); }
  Given(const Given&) = delete;
  Given& operator=(const Given&) = delete;

 private:
  const Setting setting_;
};

TEST(Id, OfAnAddressThatOthersReachNeedsASecret) {
  for (const char* here : {"127.0.0.1:4711", "127.1.2.3:4711", "[::1]:4711", "[::ffff:127.0.0.1]:4711"}) {
    Given id(Setting::HCCL_COMM_ID, here);
    EXPECT_TRUE(checkPrivate(environmentId().value()).ok()) << here;
  }
  for (const char* there : {"10.1.2.3:4711", "0.0.0.0:4711", "[fd00::1]:4711", "[::]:4711", "[::ffff:10.0.0.1]:1"}) {
    Given id(Setting::HCCL_COMM_ID, there);
    const Status refused = checkPrivate(environmentId().value());
    EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << there;
    for (const char* part : {there, "whoever reaches the port", "Set HPU_COMM_SECRET", "HPU_COMM_OPEN=1"})
      EXPECT_THAT(refused.message(), HasSubstr(part));
    // Neither is there an id of it, nor does any rank meet there.
    EXPECT_EQ(createUniqueId().status().toString(), refused.toString());
    for (int rank : {0, 1})
      EXPECT_EQ(Bootstrap::join({}, rank, 2, {.timeoutMs = 60000}).status().toString(), refused.toString());
    {
      Given secret(Setting::HPU_COMM_SECRET, "correct horse");
      const CoordinatorId known = environmentId().value();
      EXPECT_TRUE(checkPrivate(known).ok());
      // The id carries it: whoever got it needs no setting.
      EXPECT_TRUE(checkPrivate(decodeId(encodeId(known)).value()).ok());
    }
    Given open(Setting::HPU_COMM_OPEN, "1");
    EXPECT_TRUE(checkPrivate(environmentId().value()).ok());
  }
}

TEST(Id, RanksMeetAtAnAddressOfThisMachineWithASecretOrWhenAllMayCome) {
  Address address = chooseInterface("").value();
  for (const bool open : {false, true}) {
    address.port = 0;
    address.port = Reactor::acquire().value()->listen(address, nullptr).value()->address().port;
    Given id(Setting::HCCL_COMM_ID, address.text());
    Given how(open ? Setting::HPU_COMM_OPEN : Setting::HPU_COMM_SECRET, open ? "1" : "correct horse");
    auto results = onRanks<Status>(2, [&](int rank) {
      auto joined = Bootstrap::join({}, rank, 2, {.timeoutMs = 20000});
      return joined.ok() ? (*joined)->barrier("all", soon()) : joined.status();
    });
    for (const Status& status : results) EXPECT_TRUE(status.ok()) << status.toString();
  }
}

TEST(Id, WhoHasAnotherSecretIsToldSo) {
  Address address = parseAddress("127.0.0.1:1", "it").value();
  address.port = 0;
  address.port = Reactor::acquire().value()->listen(address, nullptr).value()->address().port;
  Given id(Setting::HCCL_COMM_ID, address.text());
  CoordinatorId other;
  {
    Given secret(Setting::HPU_COMM_SECRET, "battery staple");
    other = environmentId().value();
  }
  Given secret(Setting::HPU_COMM_SECRET, "correct horse");
  std::thread root([] { Bootstrap::join({}, 0, 2, {.timeoutMs = 20000}).status().ignore(); });
  const Status refused = Bootstrap::joinAt(other, 1, 2, {.timeoutMs = 20000}).status();
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_THAT(refused.message(), HasSubstr("HPU_COMM_SECRET is not rank 0's"));
  EXPECT_TRUE(Bootstrap::join({}, 1, 2, {.timeoutMs = 20000}).ok());
  root.join();
}

TEST(Interface, AddressesOfTheOtherIpVersionComeSecondAndThoseOfALinkLast) {
  auto order = [](IpOrder ips) {
    std::vector<std::string> texts = {"[fe80::1]:1", "10.1.2.3:1", "[2001:db8::1]:1"};
    std::stable_sort(texts.begin(), texts.end(), [&](const std::string& a, const std::string& b) {
      return preference(parseAddress(a, "a").value(), ips) < preference(parseAddress(b, "b").value(), ips);
    });
    return texts;
  };
  EXPECT_THAT(order(IpOrder::kV4First), testing::ElementsAre("10.1.2.3:1", "[2001:db8::1]:1", "[fe80::1]:1"));
  EXPECT_THAT(order(IpOrder::kV6First), testing::ElementsAre("[2001:db8::1]:1", "10.1.2.3:1", "[fe80::1]:1"));
  // A unique local address (fd00::/8) counts as any other.
  EXPECT_EQ(preference(parseAddress("[fd00::1]:1", "it").value(), IpOrder::kV6First), 0);
}

TEST(Interface, OfDataMayBeReachedByIpv6) {
  const Address here = parseAddress("127.0.0.1:99", "it").value();
  const Address elsewhere = parseAddress("192.0.2.1:99", "it").value();
  // Nobody's: nothing is known beside it.
  EXPECT_EQ(dataAddresses(elsewhere, IpOrder::kV6First)->at(0).text(), "192.0.2.1:0");
  EXPECT_FALSE(haveV6(elsewhere));
  if (::access("/proc/net/if_inet6", R_OK) != 0 || !haveV6(here)) GTEST_SKIP() << "the loopback has no IPv6 here";
  EXPECT_EQ(dataAddresses(here, IpOrder::kV6First)->at(0).text(), "[::1]:0");
  EXPECT_EQ(dataAddresses(here)->at(0).text(), "127.0.0.1:0");
  Given lo(Setting::HPU_COMM_IFNAME, "lo");
  EXPECT_EQ(dataAddresses(elsewhere, IpOrder::kV6First)->at(0).text(), "[::1]:0");
  EXPECT_EQ(dataAddresses(elsewhere)->at(0).text(), "127.0.0.1:0");
  EXPECT_TRUE(haveV6(elsewhere));
}

TEST(Interface, OfDataIsTheOneThatIsNamedOrThatReachesTheCoordinator) {
  const Address reached = parseAddress("10.1.2.3:99", "it").value();
  EXPECT_EQ(dataAddresses(reached)->at(0).text(), "10.1.2.3:0");
  {
    Given lo(Setting::HPU_COMM_IFNAME, "nosuch,lo");
    const auto addresses = dataAddresses(reached);
    ASSERT_TRUE(addresses.ok());
    EXPECT_EQ(addresses->size(), 1u);
    EXPECT_TRUE(isLoopback(addresses->at(0)));
  }
  Given none(Setting::HPU_COMM_IFNAME, "nosuch");
  const Status refused = dataAddresses(reached).status();
  EXPECT_EQ(refused.code(), StatusCode::kNotFound);
  EXPECT_THAT(refused.message(), HasSubstr("HPU_COMM_IFNAME 'nosuch'"));
  EXPECT_THAT(refused.message(), HasSubstr("there are: "));
}

/// An interface with these addresses; empty: it has none of that version.
InterfaceAddresses interface(const std::string& name, const std::string& v4, const std::string& v6) {
  InterfaceAddresses one{.name = name, .loops = false, .v4 = {}, .v6 = {}};
  if (!v4.empty()) one.v4 = parseAddress(v4 + ":1", "it").value();
  if (!v6.empty()) one.v6 = parseAddress("[" + v6 + "]:1", "it").value();
  return one;
}

TEST(Interface, AllOfDataAreOfOneIpVersion) {
  const auto both = interface("eth0", "10.0.0.1", "2001:db8::1"), only4 = interface("eth1", "10.0.1.1", ""),
             only6 = interface("eth2", "", "2001:db8::2"), link = interface("eth3", "", "fe80::3%1"),
             usual = interface("eth4", "10.0.4.1", "fe80::4%1");
  auto texts = [](const std::vector<InterfaceAddresses>& interfaces, IpOrder order) {
    std::string text;
    const auto addresses = oneVersion(interfaces, order, "HPU_COMM_IFNAME 'eth'");
    if (!addresses.ok()) return addresses.status().toString();
    for (const Address& one : *addresses) text += one.text() + " ";
    return text;
  };
  for (const IpOrder order : {IpOrder::kV4First, IpOrder::kV6First}) {
    const bool v6 = order == IpOrder::kV6First;
    EXPECT_EQ(texts({both}, order), v6 ? "[2001:db8::1]:1 " : "10.0.0.1:1 ");
    // What was asked for when all have it, else what all have.
    EXPECT_EQ(texts({both, both}, order), v6 ? "[2001:db8::1]:1 [2001:db8::1]:1 " : "10.0.0.1:1 10.0.0.1:1 ");
    EXPECT_EQ(texts({both, only4}, order), "10.0.0.1:1 10.0.1.1:1 ");
    EXPECT_EQ(texts({only4, both}, order), "10.0.1.1:1 10.0.0.1:1 ");
    EXPECT_EQ(texts({both, only6}, order), "[2001:db8::1]:1 [2001:db8::2]:1 ");
    EXPECT_EQ(texts({both, usual}, order), "10.0.0.1:1 10.0.4.1:1 ");
    // Addresses of the link alone are better than nothing.
    EXPECT_EQ(texts({link, usual}, order), "[fe80::3%1]:1 [fe80::4%1]:1 ");
    for (const auto& mixed : {std::vector{only4, only6}, std::vector{only6, both, only4}, std::vector{only4, link}}) {
      const std::string refused = texts(mixed, order);
      EXPECT_THAT(refused, HasSubstr("HPU_COMM_IFNAME 'eth'"));
      EXPECT_THAT(refused, HasSubstr("no IP version in common"));
      EXPECT_THAT(refused, HasSubstr("eth1 has IPv4"));
    }
    EXPECT_THAT(texts({only6, both, only4}, order), HasSubstr("eth2 has IPv6, eth0 has IPv4 and IPv6, eth1 has IPv4;"));
    EXPECT_THAT(texts({only4, link}, order), HasSubstr("eth3 has IPv6 of its link alone"));
  }
}

TEST(Interface, ThatAPrefixCountsInNeedsAnAddressOfMoreThanItsLink) {
  auto at = [](const char* text) { return parseAddress(text, "it").value(); };
  const InterfaceAddresses used{"eth0", false, at("10.0.0.1:1"), std::nullopt},
      unused{"eth1", false, std::nullopt, at("[fe80::3%1]:1")};
  auto names = [&](const std::vector<InterfaceAddresses>& interfaces, const char* setting) {
    std::string text;
    for (const InterfaceAddresses& one : withoutUnused(interfaces, setting)) text += one.name + " ";
    return text;
  };
  EXPECT_EQ(names({used, unused}, "eth"), "eth0 ");
  EXPECT_EQ(names({unused, used}, "eth"), "eth0 ");
  EXPECT_EQ(names({used, unused}, "eth0,eth1"), "eth0 eth1 ") << "asked for by name";
  EXPECT_EQ(names({unused, unused}, "eth"), "eth1 eth1 ") << "nothing better";
}

TEST(Address, OfALinkHasTheScopeOfTheMachineThatUsesIt) {
  auto at = [](const char* text) { return parseAddress(text, "it").value(); };
  // What a parent told, by where this machine is reached.
  EXPECT_EQ(scopedLike(at("[fe80::1%7]:9"), at("[fe80::2%3]:1")).text(), "[fe80::1%3]:9");
  EXPECT_EQ(scopedLike(at("[fe80::1%7]:9"), at("10.0.0.1:1")).text(), "[fe80::1%7]:9");
  EXPECT_EQ(scopedLike(at("[fe80::1%7]:9"), at("[fd00::2]:1")).text(), "[fe80::1%7]:9");
  for (const char* other : {"10.0.0.1:9", "[fd00::1]:9", "[::1]:9"})
    EXPECT_EQ(scopedLike(at(other), at("[fe80::2%3]:1")).text(), other);
  // What an id says: this machine's own address, an interface of that number, the first one.
  const std::vector<Address> own = {at("[fe80::a%4]:1"), at("[fe80::b%5]:1")};
  EXPECT_EQ(scopedHere(at("[fe80::b%9]:9"), own).text(), "[fe80::b%5]:9");
  EXPECT_EQ(scopedHere(at("[fe80::1%5]:9"), own).text(), "[fe80::1%5]:9");
  EXPECT_EQ(scopedHere(at("[fe80::1%9]:9"), own).text(), "[fe80::1%4]:9");
  EXPECT_EQ(scopedHere(at("[fe80::1%9]:9"), {}).text(), "[fe80::1%9]:9");
  EXPECT_EQ(scopedHere(at("[fd00::1]:9"), own).text(), "[fd00::1]:9");
  for (const Address& one : linkLocalAddresses()) {
    EXPECT_TRUE(isLinkLocal(one)) << one.text();
    EXPECT_NE(one.scope, 0u) << one.text();
  }
}

TEST(Address, OfALinkIsTheSamePlaceWhateverItsScopeIsCalled) {
  Given secret(Setting::HPU_COMM_SECRET, "a secret of twenty-six chars");
  auto idAt = [](const char* text) {
    Given id(Setting::HCCL_COMM_ID, text);
    return environmentId().value();
  };
  const CoordinatorId one = idAt("[fe80::1%1]:4711"), other = idAt("[fe80::1%2]:4711");
  EXPECT_EQ(one.nonce, other.nonce);
  EXPECT_EQ(one.label, other.label);
  EXPECT_EQ(one.secret, other.secret);
  EXPECT_EQ(other.address.scope, 2u);
  EXPECT_NE(one.nonce, idAt("[fe80::2%1]:4711").nonce);
  EXPECT_EQ(decodeId(encodeId(other))->address, other.address);
}

}  // namespace
}  // namespace hpu::collectives
