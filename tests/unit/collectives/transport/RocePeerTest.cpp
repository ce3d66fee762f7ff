// SPDX-License-Identifier: Apache-2.0
// Peers of RoCE links that our own networks did not make: what they say over TCP, and what their queue pairs send.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "Links.h"
#include "collectives/roce/udp/Endpoint.h"
#include "collectives/transport/net/RoceNetwork.h"
#include "collectives/transport/net/RoceWire.h"
#include "collectives/transport/net/TcpNetwork.h"

namespace hpu::collectives::net {
namespace {

using testing::HasSubstr;

Address addressOf(const std::string& ip) {
  Address address = parseAddress(ip + ":1", "the test").value();
  address.port = 0;
  return address;
}

/// A peer whose frames come, and which does not hear that they have: it tells them over TCP once more.
TEST(RocePeer, FramesThatHaveComeAndComeAgainLateAreTakenOnce) {
  const auto network = roceNetwork(addressOf("127.0.0.2"), {}).value();
  auto events = std::make_shared<Recorder>();
  std::promise<std::shared_ptr<Link>> come;
  auto door = network
                  ->open([&](std::shared_ptr<Link> link, const std::string&) {
                    link->start(events);
                    come.set_value(std::move(link));
                  })
                  .value();
  // The other end is made up of a queue pair and what is said over TCP.
  roce::EndpointOptions options;
  options.local = addressOf("127.0.0.1");
  auto endpoint = roce::Endpoint::open(options).value();
  roce_wire::End end;
  end.queuePair = endpoint->newNumber();
  end.firstPsn = 7;
  end.pathMtu = 1024;
  end.packets = end.receives = 32;
  end.address = endpoint->local();
  const auto tcp = tcpNetwork(addressOf("127.0.0.1")).value();
  auto said = std::make_shared<Recorder>();
  auto meeting = tcp->dial(door->address().substr(5), roce_wire::tcpHello("roce"), said, soon());
  auto say = [&](const std::string& message) { sendAll(*meeting, *said, message); };
  say(roce_wire::encodeOffer(end, "it is me"));
  auto link = come.get_future().get();
  ASSERT_TRUE(said->waitForFrames(1));
  const std::string answer = said->frames()[0];
  const auto theirs = roce_wire::parse(bytesOf(answer)).value().end;
  roce::QueuePairOptions pairOptions;
  pairOptions.number = end.queuePair;
  pairOptions.pathMtu = end.pathMtu;
  pairOptions.firstPsn = end.firstPsn;
  ASSERT_TRUE(endpoint->connect(pairOptions, {theirs.queuePair, theirs.firstPsn}, theirs.address).ok());
  roce::QueuePair& pair = *endpoint->find(end.queuePair);
  std::vector<std::byte> place(roce_wire::kHeadBytes + kMostFrameBytes);
  ASSERT_TRUE(pair.post(roce::Receive{1, place}).ok());
  say(roce_wire::encodeReady());

  auto frameOf = [](uint32_t taken, std::string_view text) {
    std::vector<std::byte> bytes(roce_wire::kHeadBytes);
    roce_wire::Head head;
    head.taken = taken;
    encodeHead(head, bytes.data());
    bytes.insert(bytes.end(), bytesOf(text).begin(), bytesOf(text).end());
    return bytes;
  };
  int done = 0;
  auto waitDone = [&](int count) {
    const auto until = roce::Endpoint::now() + 30'000'000'000;
    while (done < count && roce::Endpoint::now() < until) {
      endpoint->wait(roce::Endpoint::now() + 10'000'000);
      (void)endpoint->progress();
      while (const auto completion = pair.poll()) done += completion->outcome == roce::Outcome::kSuccess;
    }
    return done >= count;
  };
  std::vector<std::byte> first = frameOf(0, "one"), second = frameOf(1, "two"), third = frameOf(1, "three");
  roce::Request request;
  request.local = first;
  ASSERT_TRUE(pair.post(request).ok());
  ASSERT_TRUE(waitDone(1));
  ASSERT_TRUE(events->waitForFrames(1));
  sendAll(*link, *events, "back");
  ASSERT_TRUE(waitDone(2));
  request.local = second;
  ASSERT_TRUE(pair.post(request).ok());
  ASSERT_TRUE(waitDone(3));
  ASSERT_TRUE(events->waitForFrames(2));
  say(roce_wire::encodeLate(0, false, first));
  say(roce_wire::encodeLate(1, false, second));
  say(roce_wire::encodeLate(2, false, third));
  say(roce_wire::encodeEnd(unavailable("that was all")));
  const Status why = events->waitForClosed();
  EXPECT_EQ(why.code(), StatusCode::kUnavailable);
  EXPECT_THAT(why.message(), HasSubstr("that was all"));
  EXPECT_EQ(events->frames(), (std::vector<std::string>{"one", "two", "three"}));
  meeting->close();
  link->close();
}

/// Somebody who knows the door over TCP, and speaks something else than the protocol.
TEST(RocePeer, HangsUpOnWhoSpeaksNonsenseOrAnotherVersion) {
  const auto network = roceNetwork(addressOf("127.0.0.2"), {}).value();
  std::atomic<int> come{0};
  auto door = network->open([&](std::shared_ptr<Link>, const std::string&) { ++come; }).value();
  const auto tcp = tcpNetwork(addressOf("127.0.0.1")).value();
  const std::string address = door->address().substr(5);
  roce_wire::End end;
  end.queuePair = 17;
  end.pathMtu = 1024;
  end.packets = end.receives = 8;
  end.address = addressOf("127.0.0.1");
  end.address.port = 4000;
  for (const std::string& words : {std::string("nonsense"), std::string(), roce_wire::encodeReady(),
                                   roce_wire::encodeOffer(end, "", roce_wire::kVersion + 1)}) {
    auto owner = std::make_shared<Recorder>();
    auto link = tcp->dial(address, roce_wire::tcpHello("roce"), owner, soon());
    sendAll(*link, *owner, words);
    EXPECT_FALSE(owner->waitForClosed().ok());
  }
  EXPECT_EQ(come, 0);
}

}  // namespace
}  // namespace hpu::collectives::net
