// SPDX-License-Identifier: Apache-2.0
// The network "verbs" where there is no adapter: what it would choose, and what it says that is missing. Data over it:
// tests/interop/rxe/lab_nodes.py.
#include "collectives/transport/net/VerbsNetwork.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "Links.h"
#include "collectives/transport/net/VerbsChoice.h"
#if HPU_HAVE_VERBS
#include "FakeVerbsAt.h"
#endif

namespace hpu::collectives::net {
namespace {

using ::testing::HasSubstr;

Address addressOf(const std::string& ip) {
  Address address = parseAddress(ip + ":1", "the test").value();
  address.port = 0;
  return address;
}

VerbsGid gid(const std::string& device, uint32_t index, const std::string& ip, const std::string& type = "RoCE v2") {
  VerbsGid made;
  made.device = device;
  made.index = index;
  made.address = addressOf(ip);
  made.type = type;
  made.interface = "eth." + device;
  made.activeMtu = 1024;
  return made;
}

const std::vector<std::string> kDevices = {"rdma0", "rdma1"};
const std::vector<VerbsGid> kGids = {
    gid("rdma0", 0, "[fe80::1]", "IB/RoCE v1"),
    gid("rdma0", 1, "[fe80::1]"),
    gid("rdma0", 2, "10.0.0.1", "IB/RoCE v1"),
    gid("rdma0", 3, "10.0.0.1"),
    gid("rdma1", 0, "[fe80::2]"),
    gid("rdma1", 5, "[fd00::7]"),
    gid("rdma1", 6, "10.0.0.1"),
};

TEST(VerbsChoice, TakesTheGidOfTheAddressForTheSecondVersionAndSaysWhy) {
  auto choice = chooseVerbs(kGids, kDevices, addressOf("[fd00::7]"), "", 0);
  ASSERT_TRUE(choice.ok()) << choice.status().message();
  EXPECT_EQ(choice->gid.device, "rdma1");
  EXPECT_EQ(choice->gid.index, 5u);
  EXPECT_EQ(choice->pathMtu, 1024u);
  EXPECT_EQ(choice->reason,
            "device rdma1 port 1, the one that has a GID for RoCE v2 of [fd00::7] (index 5, interface eth.rdma1); path "
            "MTU 1024, the port's active one");
  // With a port and a scope, too, as local addresses have them.
  Address local = addressOf("[fe80::2]");
  local.port = 4000;
  local.scope = 2;
  choice = chooseVerbs(kGids, kDevices, local, "", 512);
  ASSERT_TRUE(choice.ok()) << choice.status().message();
  EXPECT_EQ(choice->gid.index, 0u);
  EXPECT_EQ(choice->pathMtu, 512u);
  EXPECT_THAT(choice->reason, HasSubstr("path MTU 512, as HPU_COMM_ROCE_MTU says"));
}

TEST(VerbsChoice, OfSeveralDevicesWithTheAddressTakesTheFirstOrTheNamedOne) {
  auto choice = chooseVerbs(kGids, kDevices, addressOf("10.0.0.1"), "", 0);
  ASSERT_TRUE(choice.ok()) << choice.status().message();
  EXPECT_EQ(choice->gid.device, "rdma0");
  EXPECT_EQ(choice->gid.index, 3u);
  EXPECT_THAT(choice->reason, HasSubstr("the first of 2 that have"));
  choice = chooseVerbs(kGids, kDevices, addressOf("10.0.0.1"), "rdma1", 0);
  ASSERT_TRUE(choice.ok()) << choice.status().message();
  EXPECT_EQ(choice->gid.index, 6u);
  EXPECT_THAT(choice->reason, HasSubstr("which HPU_COMM_VERBS_DEVICE names"));
}

TEST(VerbsChoice, GoesAroundAPortThatIsDown) {
  std::vector<VerbsGid> gids = kGids;
  gids[3].isUp = false;
  auto choice = chooseVerbs(gids, kDevices, addressOf("10.0.0.1"), "", 0);
  ASSERT_TRUE(choice.ok()) << choice.status().message();
  EXPECT_EQ(choice->gid.device, "rdma1");
  gids[6].isUp = false;
  choice = chooseVerbs(gids, kDevices, addressOf("10.0.0.1"), "", 0);
  EXPECT_EQ(choice.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(choice.status().message(),
              HasSubstr("RDMA device rdma0 port 1, which has the address 10.0.0.1, is down"));
  EXPECT_THAT(choice.status().message(), HasSubstr("eth.rdma0"));
}

TEST(VerbsChoice, SaysWhatThereIsWhenNothingSuits) {
  const auto errorOf = [](const std::vector<VerbsGid>& gids, const std::vector<std::string>& devices,
                          const std::string& ip, const std::string& device,
                          uint32_t mtu) { return chooseVerbs(gids, devices, addressOf(ip), device, mtu).status(); };
  EXPECT_THAT(errorOf({}, {}, "10.0.0.1", "", 0).message(), HasSubstr("this machine has no RDMA device"));
  EXPECT_EQ(errorOf({}, {}, "10.0.0.1", "", 0).code(), StatusCode::kNotFound);
  EXPECT_EQ(errorOf(kGids, kDevices, "10.0.0.1", "mlx5_0", 0).message(),
            "there is no RDMA device 'mlx5_0' (HPU_COMM_VERBS_DEVICE); there are: rdma0, rdma1");
  const Status none = errorOf(kGids, kDevices, "10.0.0.2", "rdma0", 0);
  EXPECT_EQ(none.code(), StatusCode::kNotFound);
  EXPECT_THAT(none.message(), HasSubstr("RDMA device rdma0 has no GID for RoCE v2 of 10.0.0.2"));
  EXPECT_THAT(none.message(), HasSubstr("rdma0 port 1: 10.0.0.1 (RoCE v2)"));
  EXPECT_THAT(none.message(), HasSubstr("HPU_COMM_IFNAME"));
  // Another version of RoCE, or InfiniBand, is no RoCE v2.
  const std::vector<VerbsGid> old = {gid("rdma0", 0, "10.0.0.1", "IB/RoCE v1")};
  EXPECT_THAT(errorOf(old, {"rdma0"}, "10.0.0.1", "", 0).message(), HasSubstr("no RDMA device has a GID for RoCE v2"));
  std::vector<VerbsGid> other = {gid("rdma0", 0, "10.0.0.1")};
  other[0].isEthernet = false;
  EXPECT_EQ(errorOf(other, {"rdma0"}, "10.0.0.1", "", 0).code(), StatusCode::kNotFound);
  EXPECT_THAT(errorOf(kGids, kDevices, "10.0.0.1", "", 2048).message(),
              HasSubstr("rdma0 port 1 has an active one of 1024: raise the MTU of its interface (eth.rdma0)"));
  EXPECT_THAT(errorOf(kGids, kDevices, "10.0.0.1", "", 1000).message(),
              HasSubstr("it is 256, 512, 1024, 2048 or 4096"));
}

TEST(VerbsChoice, ReadsAndWritesGids) {
  for (const char* ip : {"10.1.2.3", "[fd00::1:2]", "[fe80::5054:ff:fe00:1]"}) {
    uint8_t bytes[16];
    gidOf(addressOf(ip), bytes);
    EXPECT_EQ(addressOfGid(bytes), addressOf(ip));
  }
  const uint8_t mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 1, 2, 3};
  EXPECT_EQ(addressOfGid(mapped), addressOf("10.1.2.3"));
}

TEST(VerbsChoice, TimeoutsOfTheDeviceTakeAtLeastTheSilence) {
  EXPECT_EQ(verbsTimeout(0, 8), 14);
  EXPECT_EQ(verbsTimeout(8000, 8), 18);  // 8 of 1.07 s
  EXPECT_EQ(verbsTimeout(8600, 8), 19);
  EXPECT_EQ(verbsTimeout(1'000'000'000, 8), 22);
}

#if HPU_HAVE_VERBS

/// Two ends over the adapter of FakeVerbs.cpp, and what that one has at the end.
class VerbsLinks : public ::testing::Test {
 protected:
  ~VerbsLinks() override {
    if (ends.dialled) ends.dialled->close();
    if (ends.taken) ends.taken->close();
    EXPECT_EQ(fakeVerbs<size_t()>("fake_verbs_pairs")(), 0u);
    EXPECT_EQ(fakeVerbs<size_t()>("fake_verbs_registered")(), 0u);
  }
  void write(uint64_t id, std::span<const std::byte> data, const Window& to, std::string_view frame) {
    for (int rooms = ends.dialledEvents->rooms();
         !ends.dialled->write(id, data.data(), static_cast<int64_t>(data.size()), to, bytesOf(frame)) &&
         ends.dialledEvents->waitForRooms(rooms + 1);)
      rooms = ends.dialledEvents->rooms();
  }
  Ends ends{fakeVerbsAt(addressOf("127.0.0.1"))};
};

/// The device takes 64 requests, and of 64 KiB at most.
TEST_F(VerbsLinks, MoreThanTheDeviceTakesAtOnceWaitsInOrder) {
  fakeVerbs<void(bool)>("fake_verbs_deaf")(true);
  const std::vector<std::byte> data = pattern(100 * (64 << 10) + 1, 1);
  std::vector<std::byte> place(data.size());
  const Window window = ends.taken->openWindow(place.data(), static_cast<int64_t>(place.size()));
  write(1, data, window, "first");
  for (int i = 0; i < 20; ++i) sendAll(*ends.dialled, *ends.dialledEvents, std::to_string(i));
  EXPECT_FALSE(ends.dialled->drained());
  fakeVerbs<void(bool)>("fake_verbs_deaf")(false);
  ASSERT_TRUE(ends.takenEvents->waitForFrames(21));
  EXPECT_EQ(ends.takenEvents->frames().front(), "first");
  EXPECT_EQ(ends.takenEvents->frames().back(), "19");
  EXPECT_TRUE(place == data);
  EXPECT_TRUE(ends.dialledEvents->waitForWritten(1));
}

TEST_F(VerbsLinks, OneWhoWritesIntoAWindowThatWasTakenBackTouchesNothing) {
  const std::vector<std::byte> data = pattern(10'000, 2);
  std::vector<std::byte> place(data.size());
  const size_t before = fakeVerbs<size_t()>("fake_verbs_registered")();
  const Window window = ends.taken->openWindow(place.data(), 10'000);
  EXPECT_EQ(fakeVerbs<size_t()>("fake_verbs_registered")(), before + 1);
  EXPECT_NE(window.address, reinterpret_cast<uintptr_t>(place.data()));
  ends.taken->closeWindow(window);
  EXPECT_EQ(fakeVerbs<size_t()>("fake_verbs_registered")(), before);
  write(1, data, window, "late");
  EXPECT_THAT(ends.dialledEvents->waitForClosed().message(), HasSubstr("has taken it back"));
  EXPECT_THAT(ends.takenEvents->waitForClosed().message(), HasSubstr("wrote where it may not (any more)"));
  EXPECT_EQ(place, std::vector<std::byte>(data.size()));
  EXPECT_TRUE(ends.takenEvents->frames().empty());
}

TEST_F(VerbsLinks, OneWhoWritesBesideItsWindowTouchesNothing) {
  const std::vector<std::byte> data = pattern(10'001, 3);
  std::vector<std::byte> place(20'000);
  const Window window = ends.taken->openWindow(place.data(), 10'000);
  write(1, data, window, "one byte too long");
  EXPECT_EQ(ends.dialledEvents->waitForClosed().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ends.takenEvents->waitForClosed().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(place, std::vector<std::byte>(place.size()));
}

TEST_F(VerbsLinks, APortThatGoesDownEndsThemAtOnceAndComesBackForNewOnes) {
  fakeVerbs<void(bool)>("fake_verbs_port_event")(false);
  for (const auto& events : {ends.dialledEvents, ends.takenEvents}) {
    const Status why = events->waitForClosed();
    EXPECT_EQ(why.code(), StatusCode::kUnavailable);
    EXPECT_THAT(why.message(), HasSubstr("RDMA device fake0: port error: port 1 (interface lo) is down"));
  }
  const auto network = fakeVerbsAt(addressOf("127.0.0.1"));
  Doorway door(network);
  auto events = std::make_shared<Recorder>();
  auto none = network->dial(door.address(), "", events, soon());
  EXPECT_THAT(events->waitForClosed().message(), HasSubstr("is down"));
  fakeVerbs<void(bool)>("fake_verbs_port_event")(true);
  // The event is taken in by the thread that serves the next link's meeting, before or after it.
  for (int i = 0; i < 100; ++i) {
    auto again = std::make_shared<Recorder>();
    auto link = network->dial(door.address(), "", again, soon(200));
    if (!again->waitForClosed().ok() && door.waiting() > 0) break;
    ASSERT_LT(i, 99) << "no link after the port has come back";
  }
}

TEST_F(VerbsLinks, MemoryThatTheDeviceDoesNotTakeEndsThemWithTheReason) {
  const std::vector<std::byte> data = pattern(10'000, 4);
  std::vector<std::byte> place(data.size());
  const Window window = ends.taken->openWindow(place.data(), 10'000);
  fakeVerbs<void(int)>("fake_verbs_refuse_registrations")(1);
  write(1, data, window, "none");
  const Status why = ends.dialledEvents->waitForClosed();
  EXPECT_EQ(why.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(why.message(), HasSubstr("RDMA device fake0 cannot register 10000 bytes to be sent"));
  EXPECT_EQ(ends.takenEvents->waitForClosed().code(), StatusCode::kUnavailable);
}

TEST_F(VerbsLinks, TheSameDataForManyIsRegisteredOnce) {
  fakeVerbs<void(bool)>("fake_verbs_deaf")(true);
  const std::vector<std::byte> data = pattern(10'000, 5);
  std::vector<std::byte> places[3];
  std::vector<Window> windows;
  for (auto& place : places) {
    place.resize(data.size());
    windows.push_back(ends.taken->openWindow(place.data(), 10'000));
  }
  const size_t before = fakeVerbs<size_t()>("fake_verbs_registered")();
  for (size_t i = 0; i < 3; ++i) write(i, data, windows[i], std::to_string(i));
  EXPECT_EQ(fakeVerbs<size_t()>("fake_verbs_registered")(), before + 1);
  fakeVerbs<void(bool)>("fake_verbs_deaf")(false);
  ASSERT_TRUE(ends.takenEvents->waitForFrames(3));
  ASSERT_TRUE(ends.dialledEvents->waitForWritten(3));
  EXPECT_EQ(fakeVerbs<size_t()>("fake_verbs_registered")(), before - 3);
  for (const auto& place : places) EXPECT_EQ(place, data);
}

TEST_F(VerbsLinks, AForkedChildHasNoneOfTheDevicesDescriptorsAndDoesNothing) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not support a child of a program with threads";
#endif
  std::vector<int> descriptors;
  for (int fd = 0; (fd = fakeVerbs<int(size_t)>("fake_verbs_descriptor")(descriptors.size())) >= 0;)
    descriptors.push_back(fd);
  EXPECT_GE(descriptors.size(), 3u);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (int fd : descriptors)
      if (::fcntl(fd, F_GETFD) != -1) ::_exit(1);
    if (!ends.dialled->send(bytesOf("of the child"))) ::_exit(2);
    ends.dialled->close();
    ends.dialled.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "exit code " << WEXITSTATUS(status);
  sendAll(*ends.dialled, *ends.dialledEvents, "of the parent");
  ASSERT_TRUE(ends.takenEvents->waitForFrames(1));
  EXPECT_EQ(ends.takenEvents->frames(), std::vector<std::string>{"of the parent"});
}

TEST(VerbsNetwork, WithoutTheLibrarySaysWhichFileAndPackage) {
  VerbsOptions options;
  options.library = "libibverbs-that-is-not-there.so.1";
  const Status status = verbsNetwork(addressOf("127.0.0.1"), options).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("libibverbs-that-is-not-there.so.1"));
  EXPECT_THAT(status.message(), HasSubstr("install libibverbs1 and ibverbs-providers"));
  // Any other library.
  options.library = "libm.so.6";
  const Status other = verbsNetwork(addressOf("127.0.0.1"), options).status();
  EXPECT_EQ(other.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(other.message(), HasSubstr("libm.so.6 has no ibv_get_device_list"));
}

TEST(VerbsNetwork, WithoutADeviceSaysSo) {
  std::error_code error;
  if (!std::filesystem::is_empty("/sys/class/infiniband", error) && !error) GTEST_SKIP() << "there are RDMA devices";
  if (!::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL)) GTEST_SKIP() << "there is no libibverbs.so.1";
  const Status status = verbsNetwork(addressOf("127.0.0.1"), {}).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound) << status.message();
  EXPECT_THAT(status.message(), HasSubstr("this machine has no RDMA device"));
  EXPECT_THAT(status.message(), HasSubstr("HPU_COMM_NETWORK=tcp"));
}

#else

TEST(VerbsNetwork, ThatWasLeftOutSaysSo) {
  const Status status = verbsNetwork(addressOf("127.0.0.1"), {}).status();
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("built without libibverbs' headers"));
}

#endif

}  // namespace
}  // namespace hpu::collectives::net
