// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/TcpNetwork.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/collectives/transport/Links.h"

namespace hpu::collectives::net {
namespace {

using testing::HasSubstr;

/// On IPv4 and on IPv6.
class Tcp : public testing::TestWithParam<bool> {
 protected:
  std::shared_ptr<Network> network_ = tcpNetwork(loopback(GetParam())).value();
};
INSTANTIATE_TEST_SUITE_P(Loopback, Tcp, testing::Bool(), [](const auto& info) { return info.param ? "IPv6" : "IPv4"; });

TEST_P(Tcp, BringsFramesInOrderBothWays) {
  Ends ends(network_);
  constexpr int kFrames = 5000;
  std::mt19937 random(1);
  std::vector<std::string> sent;
  for (int i = 0; i < kFrames; ++i)
    sent.push_back(std::to_string(i) + std::string(random() % 8 == 0 ? random() % 16000 : random() % 50, 'x'));
  sent.push_back("");
  sent.push_back(std::string(kMostFrameBytes, 'y'));
  std::thread back([&] {
    for (const auto& frame : sent) sendAll(*ends.taken, *ends.takenEvents, frame);
  });
  for (const auto& frame : sent) sendAll(*ends.dialled, *ends.dialledEvents, frame);
  back.join();
  ASSERT_TRUE(ends.takenEvents->waitForFrames(sent.size()));
  ASSERT_TRUE(ends.dialledEvents->waitForFrames(sent.size()));
  EXPECT_EQ(ends.takenEvents->frames(), sent);
  EXPECT_EQ(ends.dialledEvents->frames(), sent);
}

TEST_P(Tcp, TellsHelloAndWhere) {
  Doorway door(network_);
  EXPECT_LE(door.address().size(), 128U);
  auto events = std::make_shared<Recorder>();
  auto link = network_->dial(door.address(), std::string(kMostHelloBytes, 'h'), events, soon());
  std::string hello;
  auto taken = door.next(&hello);
  ASSERT_NE(taken, nullptr);
  EXPECT_EQ(hello, std::string(kMostHelloBytes, 'h'));
  EXPECT_EQ(events->rooms(), 0);
  EXPECT_FALSE(link->send(bytesOf("early")));
  EXPECT_FALSE(taken->send(bytesOf("early")));
  auto takenEvents = std::make_shared<Recorder>();
  taken->start(takenEvents);
  EXPECT_TRUE(events->waitForRooms(1));
  EXPECT_TRUE(takenEvents->waitForRooms(1));
  EXPECT_TRUE(link->send(bytesOf("late")));
  ASSERT_TRUE(takenEvents->waitForFrames(1));
  EXPECT_EQ(takenEvents->frames(), std::vector<std::string>{"late"});
  EXPECT_THAT(link->describe(), HasSubstr(GetParam() ? "[::1]:" : "127.0.0.1:"));
  EXPECT_THAT(link->describe(), HasSubstr(" to "));
}

TEST_P(Tcp, WritesIntoWindowsBothWaysUnderLoad) {
  Ends ends(network_);
  constexpr int kWrites = 40;
  auto exchange = [&](Link& out, Recorder& outEvents, Link& in, Recorder& inEvents, uint64_t seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    std::vector<std::vector<std::byte>> data, landed;
    for (int i = 0; i < kWrites; ++i) {
      const size_t bytes = i % 4 == 0 ? 1 + random() % (6 << 20) : 1 + random() % 5000;
      data.push_back(pattern(bytes, seed + static_cast<uint64_t>(i)));
      landed.emplace_back(bytes);
      const Window window = in.openWindow(landed.back().data(), static_cast<int64_t>(bytes));
      const std::string frame = "frame " + std::to_string(i);
      for (int rooms = outEvents.rooms(); !out.write(static_cast<uint64_t>(i), data.back().data(),
                                                     static_cast<int64_t>(bytes), window, bytesOf(frame)) &&
                                          outEvents.waitForRooms(rooms + 1);)
        rooms = outEvents.rooms();
      sendAll(out, outEvents, "between");
    }
    EXPECT_TRUE(outEvents.waitForWritten(kWrites));
    EXPECT_TRUE(inEvents.waitForFrames(2 * kWrites));
    const auto frames = inEvents.frames();
    for (int i = 0; i < kWrites; ++i) {
      EXPECT_EQ(frames[static_cast<size_t>(2 * i)], "frame " + std::to_string(i));
      EXPECT_EQ(outEvents.written()[static_cast<size_t>(i)], static_cast<uint64_t>(i));
      EXPECT_TRUE(landed[static_cast<size_t>(i)] == data[static_cast<size_t>(i)]) << "write " << i;
    }
  };
  std::thread back([&] { exchange(*ends.taken, *ends.takenEvents, *ends.dialled, *ends.dialledEvents, 1000); });
  exchange(*ends.dialled, *ends.dialledEvents, *ends.taken, *ends.takenEvents, 2000);
  back.join();
}

TEST_P(Tcp, ALinkThatIsNotStartedIsRefused) {
  Doorway door(network_);
  auto events = std::make_shared<Recorder>();
  auto link = network_->dial(door.address(), "", events, soon());
  auto taken = door.next();
  ASSERT_NE(taken, nullptr);
  taken = nullptr;
  Status status = events->waitForClosed();
  EXPECT_EQ(status.code(), StatusCode::kAborted) << status.toString();
  EXPECT_THAT(status.message(), HasSubstr("does not want this link"));
  EXPECT_EQ(events->rooms(), 0);
  EXPECT_TRUE(link->send(bytesOf("after the end")));
}

TEST_P(Tcp, ADiallerWaitsUntilItsDeadline) {
  Doorway door(network_);
  auto events = std::make_shared<Recorder>();
  auto link = network_->dial(door.address(), "", events, soon(50));
  auto taken = door.next();
  Status status = events->waitForClosed();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.toString();
  // Started too late, the other end hears it.
  auto takenEvents = std::make_shared<Recorder>();
  taken->start(takenEvents);
  EXPECT_EQ(takenEvents->waitForClosed().code(), StatusCode::kUnavailable);
}

TEST_P(Tcp, BadAddressesAreToldAsTheEndOfTheLink) {
  Doorway door(network_), gone(network_);
  auto dial = [&](const std::string& address, const std::string& hello = "") {
    auto events = std::make_shared<Recorder>();
    auto link = network_->dial(address, hello, events, soon());
    return events->waitForClosed().code();
  };
  EXPECT_EQ(dial(""), StatusCode::kInvalidArgument);
  EXPECT_EQ(dial(std::string(door.address().size(), 'x')), StatusCode::kInvalidArgument);
  EXPECT_EQ(dial(door.address(), std::string(kMostHelloBytes + 1, 'x')), StatusCode::kInvalidArgument);
  auto other = tcpNetwork(loopback(!GetParam())).value();
  Doorway otherDoor(other);
  EXPECT_EQ(dial(otherDoor.address()), StatusCode::kInvalidArgument);
  // Another token; a door that is shut.
  std::string wrong = door.address();
  wrong.back() = static_cast<char>(wrong.back() ^ 1);
  EXPECT_EQ(dial(wrong), StatusCode::kUnavailable);
  const std::string shut = gone.address();
  gone.shut();
  EXPECT_EQ(dial(shut), StatusCode::kUnavailable);
  // A port where nobody listens.
  std::string closed = door.address();
  closed[6] = 1, closed[7] = 0;
  EXPECT_EQ(dial(closed), StatusCode::kUnavailable);
  EXPECT_EQ(door.waiting(), 0U);
}

TEST_P(Tcp, OneNetworkForAnAddress) {
  EXPECT_EQ(network_, tcpNetwork(loopback(GetParam())).value());
  EXPECT_EQ(network_->name(), "tcp");
  EXPECT_EQ(network_->local(), loopback(GetParam()));
  Address elsewhere = loopback(GetParam());
  elsewhere.ip[0] = GetParam() ? 0xfd : 192;
  elsewhere.ip[1] = GetParam() ? 0xaa : 0;
  elsewhere.ip[2] = 2;
  EXPECT_EQ(tcpNetwork(elsewhere).status().code(), StatusCode::kNotFound);
  Address any;
  any.v6 = GetParam();
  EXPECT_EQ(tcpNetwork(any).status().code(), StatusCode::kNotFound);
}

TEST_P(Tcp, CloseTellsThePeerAfterItsFrames) {
  Ends ends(network_);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(ends.dialled->send(bytesOf("frame")));
  ends.dialled->close();
  Status status = ends.takenEvents->waitForClosed();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.toString();
  EXPECT_EQ(ends.takenEvents->frames().size(), 100U);
  EXPECT_FALSE(ends.dialledEvents->closed());
  EXPECT_TRUE(ends.dialled->send(bytesOf("late")));
  ends.dialled->close();
}

TEST_P(Tcp, EventsMayCloseTheirLink) {
  Ends ends(network_);
  std::promise<void> closed;
  ends.takenEvents->frameHook = [&](std::span<const std::byte>) {
    ends.taken->close();
    closed.set_value();
  };
  // Both in one piece, most likely: the second one is not told.
  ends.dialled->send(bytesOf("one"));
  ends.dialled->send(bytesOf("two"));
  ASSERT_EQ(closed.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_EQ(ends.dialledEvents->waitForClosed().code(), StatusCode::kUnavailable);
  EXPECT_EQ(ends.takenEvents->frames(), std::vector<std::string>{"one"});
  EXPECT_FALSE(ends.takenEvents->closed());
}

TEST_P(Tcp, EventsMayDestroyTheirLink) {
  for (int round = 0; round < 20; ++round) {
    Ends ends(network_);
    ends.takenEvents->frameHook = [&](std::span<const std::byte>) { ends.taken = nullptr; };
    ends.dialledEvents->closedHook = [&] { ends.dialled = nullptr; };
    std::shared_ptr<Link> kept = ends.dialled;
    kept->send(bytesOf("go"));
    EXPECT_EQ(ends.dialledEvents->waitForClosed().code(), StatusCode::kUnavailable);
    EXPECT_EQ(ends.takenEvents->frames(), std::vector<std::string>{"go"});
    kept->close();
  }
}

TEST_P(Tcp, CloseWaitsForTheEventThatRuns) {
  Ends ends(network_);
  std::promise<void> entered;
  std::atomic<bool> returning{false};
  ends.takenEvents->frameHook = [&](std::span<const std::byte>) {
    entered.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    returning = true;
  };
  ends.dialled->send(bytesOf("go"));
  entered.get_future().wait();
  ends.taken->close();
  EXPECT_TRUE(returning);
}

TEST_P(Tcp, ADoorWaitsForTheCallThatRuns) {
  std::promise<void> entered;
  std::atomic<bool> returning{false};
  auto door = network_->open([&](std::shared_ptr<Link>, const std::string&) {
    entered.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    returning = true;
  });
  auto link = network_->dial((*door)->address(), "", std::make_shared<Recorder>(), soon());
  entered.get_future().wait();
  door->reset();
  EXPECT_TRUE(returning);
}

TEST_P(Tcp, NothingIsReadOrWrittenAfterClose) {
  // Memory is freed as soon as close() or closeWindow() returns: sanitizers see a late access.
  constexpr int64_t kBytes = int64_t{3} << 20;
  for (int round = 0; round < 30; ++round) {
    Ends ends(network_);
    auto source = std::make_unique<std::byte[]>(kBytes), target = std::make_unique<std::byte[]>(kBytes);
    auto back = std::make_unique<std::byte[]>(kBytes), backTarget = std::make_unique<std::byte[]>(kBytes);
    const Window window = ends.taken->openWindow(target.get(), kBytes);
    const Window backWindow = ends.dialled->openWindow(backTarget.get(), kBytes);
    EXPECT_TRUE(ends.dialled->write(1, source.get(), kBytes, window, bytesOf("done")));
    EXPECT_TRUE(ends.taken->write(2, back.get(), kBytes, backWindow, bytesOf("done")));
    std::this_thread::sleep_for(std::chrono::microseconds(20 * round));
    if (round % 2 == 0) {
      ends.taken->closeWindow(window);
      target.reset();
    }
    ends.dialled->close();
    source.reset();
    backTarget.reset();
    if (round % 3 == 0) {
      EXPECT_EQ(ends.takenEvents->waitForClosed().code(), StatusCode::kUnavailable);
    }
    ends.taken->close();
    target.reset();
    back.reset();
  }
}

TEST_P(Tcp, ServesManyLinks) {
  constexpr size_t kLinks = 200;
  Doorway door(network_);
  std::vector<std::shared_ptr<Recorder>> events, takenEvents;
  std::vector<std::shared_ptr<Link>> links, taken;
  for (size_t i = 0; i < kLinks; ++i) {
    events.push_back(std::make_shared<Recorder>());
    links.push_back(network_->dial(door.address(), std::to_string(i), events.back(), soon()));
  }
  for (size_t i = 0; i < kLinks; ++i) {
    takenEvents.push_back(std::make_shared<Recorder>());
    taken.push_back(door.next());
    ASSERT_NE(taken.back(), nullptr);
    taken.back()->start(takenEvents.back());
    taken.back()->send(bytesOf("from there"));
  }
  for (size_t i = 0; i < kLinks; ++i) {
    ASSERT_TRUE(events[i]->waitForRooms(1));
    for (int frame = 0; frame < 10; ++frame) EXPECT_TRUE(links[i]->send(bytesOf("from here")));
  }
  for (size_t i = 0; i < kLinks; ++i) {
    EXPECT_TRUE(events[i]->waitForFrames(1));
    EXPECT_TRUE(takenEvents[i]->waitForFrames(10));
  }
}

TEST_P(Tcp, OneBusyLinkDoesNotHoldUpAnother) {
  Ends busy(network_), other(network_);
  constexpr int64_t kBytes = int64_t{64} << 20;
  std::vector<std::byte> data(kBytes), target(kBytes);
  const Window window = busy.taken->openWindow(target.data(), kBytes);
  // While the large one is on its way, the small one is sent, and comes first.
  std::atomic<size_t> before{99};
  busy.takenEvents->frameHook = [&](std::span<const std::byte> frame) {
    if (textOf(frame) == "begin") other.dialled->send(bytesOf("small"));
  };
  other.takenEvents->frameHook = [&](std::span<const std::byte>) { before = busy.takenEvents->frames().size(); };
  EXPECT_TRUE(busy.dialled->send(bytesOf("begin")));
  EXPECT_TRUE(busy.dialled->write(1, data.data(), kBytes, window, bytesOf("large")));
  EXPECT_TRUE(other.takenEvents->waitForFrames(1));
  EXPECT_TRUE(busy.takenEvents->waitForFrames(2));
  EXPECT_TRUE(busy.dialledEvents->waitForWritten(1));
  EXPECT_EQ(before, 1U);
}

TEST_P(Tcp, TooLargeAFrameEndsTheLink) {
  Ends ends(network_);
  EXPECT_TRUE(ends.dialled->send(std::vector<std::byte>(kMostFrameBytes + 1)));
  EXPECT_EQ(ends.dialledEvents->waitForClosed().code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace hpu::collectives::net
