// SPDX-License-Identifier: Apache-2.0
// Peers and strangers that a TCP network did not make: slow ones, broken ones, hostile ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/Format.h"
#include "collectives/transport/net/ProgressThread.h"
#include "collectives/transport/net/TcpLink.h"
#include "tests/unit/collectives/transport/RawPeer.h"

namespace hpu::collectives::net {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TcpPeer : public testing::Test {
 protected:
  std::shared_ptr<Network> network_ = tcpNetwork(loopback()).value();

  /// A link can be made, used and ended.
  void expectToWork(Doorway& door) {
    auto events = std::make_shared<Recorder>(), takenEvents = std::make_shared<Recorder>();
    auto link = network_->dial(door.address(), "honest", events, soon());
    std::string hello;
    auto taken = door.next(&hello);
    ASSERT_NE(taken, nullptr);
    EXPECT_EQ(hello, "honest");
    taken->start(takenEvents);
    ASSERT_TRUE(events->waitForRooms(1));
    EXPECT_TRUE(link->send(bytesOf("frame")));
    EXPECT_TRUE(takenEvents->waitForFrames(1));
  }
};

/// A listening socket of nobody's network, and its place.
class FalseDoor {
 public:
  FalseDoor() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_storage storage;
    socklen_t size = toSockaddr(loopback(), storage);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&storage), size), 0);
    EXPECT_EQ(::listen(fd_, 8), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&storage), &size), 0);
    address_ = tcp::encodePlace({fromSockaddr(storage).value(), {}});
  }
  ~FalseDoor() { ::close(fd_); }
  const std::string& address() const { return address_; }
  std::unique_ptr<RawPeer> next() const { return std::make_unique<RawPeer>(::accept(fd_, nullptr, nullptr)); }

 private:
  const int fd_;
  std::string address_;
};

TEST_F(TcpPeer, OneThatTakesNothingIsBackPressure) {
  RawEnds ends(network_);
  const std::string frame(10000, 'f');
  size_t taken = 0;
  while (ends.link->send(bytesOf(frame)) && taken < 100000) ++taken;
  ASSERT_LT(taken, 100000U) << "a gigabyte was kept";
  EXPECT_FALSE(ends.link->send(bytesOf(frame)));
  EXPECT_EQ(ends.events->rooms(), 0);
  const std::string all = ends.peer->hear(taken * (tcp::kHeaderBytes + frame.size()));
  EXPECT_EQ(wordsOf(all), std::vector<std::string>(taken, "frame " + frame));
  EXPECT_TRUE(ends.events->waitForRooms(1));
  EXPECT_TRUE(ends.link->send(bytesOf("more")));
  EXPECT_THAT(wordsOf(ends.peer->hear(tcp::kHeaderBytes + 4)), ElementsAre("frame more"));
}

TEST_F(TcpPeer, SoManyWritesAreTakenAndNoMore) {
  RawEnds ends(network_);
  const std::vector<std::byte> data(size_t{1} << 20);
  size_t taken = 0;
  for (; taken < 1000; ++taken)
    if (!ends.link->write(taken, data.data(), static_cast<int64_t>(data.size()), {7, 8}, bytesOf("end"))) break;
  // What lies in the sockets' buffers, and 64.
  ASSERT_LT(taken, 200U);
  ASSERT_GE(taken, 64U);
  std::thread reader([&] {
    const size_t one = tcp::kHeaderBytes + data.size() + tcp::kTrailerBytes + 3;
    EXPECT_EQ(ends.peer->hear(taken * one).size(), taken * one);
  });
  EXPECT_TRUE(ends.events->waitForRooms(1));
  EXPECT_TRUE(ends.events->waitForWritten(taken));
  reader.join();
}

TEST_F(TcpPeer, CloseGivesUpTheWriteThatIsOnItsWayAndSendsTheFramesBehindIt) {
  RawEnds ends(network_);
  std::vector<std::byte> data(size_t{16} << 20);
  const auto bytes = static_cast<int64_t>(data.size());
  EXPECT_TRUE(ends.link->send(bytesOf("before")));
  EXPECT_TRUE(ends.link->write(1, data.data(), bytes, {7, 8}, bytesOf("written")));
  EXPECT_TRUE(ends.link->write(2, data.data(), bytes, {9, 8}, bytesOf("written, too")));
  EXPECT_TRUE(ends.link->send(bytesOf("why it ends")));
  ends.link->close();
  data = {};
  EXPECT_THAT(wordsOf(ends.peer->hear(size_t{40} << 20)),
              ElementsAre("frame before", "write 16777216", "data 16777216", "given up", "frame why it ends"));
  EXPECT_EQ(ends.events->written().size(), 0U);
}

TEST_F(TcpPeer, ACloseThatNobodyHearsIsOverAfterTwoSeconds) {
  const std::vector<std::byte> data(size_t{16} << 20);
  auto ends = std::make_unique<RawEnds>(network_);
  auto peer = std::move(ends->peer);
  EXPECT_TRUE(ends->link->write(1, data.data(), static_cast<int64_t>(data.size()), {7, 8}, {}));
  ends = nullptr;
  network_ = nullptr;  // Waits for it.
  EXPECT_LT(peer->hear(data.size() * 2).size(), data.size());
}

TEST_F(TcpPeer, WritesGoWhereAWindowIsOpenAndNowhereElse) {
  std::vector<std::byte> memory(100, std::byte{'.'});
  struct Case {
    const char* what;
    std::function<std::string(const Window&)> say;
    const char* why;
  };
  const std::string data(50, 'd');
  for (const Case& one : {
           Case{"another key", [&](Window w) { return rawWriteHeader({w.address, w.key ^ 1}, 50, "") + data; },
                "a window that it does not have"},
           Case{"another window", [&](Window w) { return rawWriteHeader({w.address + 1, w.key}, 50, "") + data; },
                "a window that it does not have"},
           Case{"no window", [&](Window) { return rawWriteHeader({0, 0}, 50, "") + data; },
                "a window that it does not have"},
           Case{"more than it takes", [&](Window w) { return rawWriteHeader(w, 51, "") + data + "d"; },
                "51 bytes into a window of 50"},
           Case{"the same twice",
                [&](Window w) {
                  const std::string write = rawWriteHeader(w, 1, "") + "." + rawTrailer();
                  return write + write;
                },
                "a window that it does not have"},
           Case{"nothing", [&](Window w) { return rawWriteHeader(w, 0, ""); }, "names a window"},
           Case{"too long a frame", [&](Window) { return rawFrame(std::string(kMostFrameBytes + 1, 'x')); },
                "a frame of 16385 bytes"},
           Case{"garbage", [&](Window) { return std::string(100, '\xee'); }, "unknown kind"},
           Case{"no end", [&](Window w) { return rawWriteHeader(w, 1, "") + "." + std::string("\2\0\0\0\0\0\0\0", 8); },
                "without an end"},
       }) {
    RawEnds ends(network_);
    const Window window = ends.link->openWindow(memory.data() + 10, 50);
    ends.peer->say(rawFrame("before") + one.say(window) + rawFrame("after"));
    Status status = ends.events->waitForClosed();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << one.what << ": " << status.toString();
    EXPECT_THAT(status.message(), HasSubstr(one.why)) << one.what;
    EXPECT_THAT(status.message(), HasSubstr("127.0.0.1:")) << one.what;
    EXPECT_EQ(ends.events->frames().front(), "before") << one.what;
    EXPECT_NE(ends.events->frames().back(), "after") << one.what;
    EXPECT_EQ(textOf(memory), std::string(100, '.')) << one.what;
  }
}

TEST_F(TcpPeer, AWriteMayBeShorterThanItsWindow) {
  RawEnds ends(network_);
  std::vector<std::byte> memory(100, std::byte{'.'});
  const Window window = ends.link->openWindow(memory.data(), 100);
  ends.peer->say(rawWriteHeader(window, 3, "end") + "abc" + rawTrailer() + "end");
  ASSERT_TRUE(ends.events->waitForFrames(1));
  EXPECT_EQ(textOf(memory), "abc" + std::string(97, '.'));
  ends.link->closeWindow(window);
}

TEST_F(TcpPeer, WhatIsWrittenIntoAClosedWindowIsDroppedAndItsFrameComes) {
  RawEnds ends(network_);
  const std::string data(300000, 'd');
  auto memory = std::make_unique<std::byte[]>(data.size());
  const auto bytes = static_cast<int64_t>(data.size());
  // Before the write.
  const Window early = ends.link->openWindow(memory.get(), bytes);
  ends.link->closeWindow(early);
  memory.reset();
  ends.peer->say(rawWriteHeader(early, data.size(), "early") + data + rawTrailer() + "early");
  ASSERT_TRUE(ends.events->waitForFrames(1));
  // Amid it.
  memory = std::make_unique<std::byte[]>(data.size());
  const Window amid = ends.link->openWindow(memory.get(), bytes);
  ends.peer->say(rawFrame("first") + rawWriteHeader(amid, data.size(), "amid") + data.substr(0, 1000));
  ASSERT_TRUE(ends.events->waitForFrames(2));
  ends.link->closeWindow(amid);
  memory.reset();
  ends.peer->say(data.substr(1000) + rawTrailer() + "amid");
  // Given up by the peer.
  memory = std::make_unique<std::byte[]>(data.size());
  const Window last = ends.link->openWindow(memory.get(), bytes);
  ends.peer->say(rawWriteHeader(last, data.size(), "never") + data + rawTrailer(true) + rawFrame("last"));
  ASSERT_TRUE(ends.events->waitForFrames(4));
  EXPECT_THAT(ends.events->frames(), ElementsAre("early", "first", "amid", "last"));
  EXPECT_FALSE(ends.events->closed());
}

TEST_F(TcpPeer, FramesThatCameBeforeTheEndAreToldBeforeIt) {
  for (bool reset : {false, true}) {
    RawEnds ends(network_);
    std::string frames;
    for (int i = 0; i < 2000; ++i) frames += rawFrame("frame");
    ends.peer->say(frames + rawFrame("half of one").substr(0, 30));
    if (reset) {
      // What has come to this machine counts.
      ASSERT_TRUE(ends.events->waitForFrames(1));
      ends.peer->reset();
    } else {
      ends.peer->end();
    }
    Status status = ends.events->waitForClosed();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.toString();
    EXPECT_EQ(ends.events->frames().size(), 2000U) << "reset: " << reset;
  }
}

TEST_F(TcpPeer, OneThatEndsWhileDataGoesToIt) {
  for (bool reset : {false, true}) {
    RawEnds ends(network_);
    const std::vector<std::byte> data(size_t{32} << 20);
    EXPECT_TRUE(ends.link->write(1, data.data(), static_cast<int64_t>(data.size()), {7, 8}, {}));
    if (reset)
      ends.peer->reset();
    else
      ends.peer->end();
    EXPECT_EQ(ends.events->waitForClosed().code(), StatusCode::kUnavailable);
    EXPECT_EQ(ends.events->written().size(), 0U);
  }
}

TEST_F(TcpPeer, AnyPiecesOfMessagesAreUnderstood) {
  RawEnds ends(network_);
  std::mt19937 random(3);
  std::vector<std::vector<std::byte>> memories;
  std::string bytes;
  std::vector<std::string> expected;
  for (int i = 0; i < 40; ++i) {
    const std::string data(1 + random() % 3000, static_cast<char>('a' + i % 26)), frame = std::to_string(i);
    memories.emplace_back(data.size());
    const Window window = ends.link->openWindow(memories.back().data(), static_cast<int64_t>(data.size()));
    bytes += rawFrame("f") + rawWriteHeader(window, data.size(), frame) + data + rawTrailer() + frame;
    expected.insert(expected.end(), {"f", frame});
  }
  for (size_t at = 0; at < bytes.size();) {
    const size_t piece = std::min<size_t>(1 + random() % (random() % 4 == 0 ? 4000 : 40), bytes.size() - at);
    ASSERT_TRUE(ends.peer->say(std::string_view(bytes).substr(at, piece)));
    at += piece;
    if (random() % 8 == 0) std::this_thread::yield();
  }
  ASSERT_TRUE(ends.events->waitForFrames(expected.size()));
  EXPECT_EQ(ends.events->frames(), expected);
  for (size_t i = 0; i < memories.size(); ++i)
    EXPECT_EQ(textOf(memories[i]), std::string(memories[i].size(), static_cast<char>('a' + i % 26)));
}

// ---- Strangers ----------------------------------------------------------------------------------

TEST_F(TcpPeer, StrangersDoNoHarmAndReachNobody) {
  Doorway door(network_);
  const tcp::Place place = tcp::decodePlace(door.address()).value();
  std::vector<std::unique_ptr<RawPeer>> silent;
  for (int i = 0; i < 50; ++i) silent.push_back(std::make_unique<RawPeer>(place.address));
  auto hears = [&](const std::string& said) {
    RawPeer stranger(place.address);
    stranger.say(said);
    return stranger.hear(1000);
  };
  EXPECT_EQ(hears("GET / HTTP/1.1\r\n\r\n"), "");
  tcp::DoorNumber wrong = place.door;
  wrong[15] ^= std::byte{1};
  EXPECT_EQ(hears(tcp::encodeGreeting(wrong, {}, "guess")), "");
  EXPECT_EQ(hears(tcp::encodeGreeting(place.door, {}, std::string(kMostHelloBytes + 1, 'x'))), "");
  std::mt19937_64 random(7);
  const std::string greeting = tcp::encodeGreeting(wrong, {}, "hello");
  for (int i = 0; i < 200; ++i) {
    std::string bytes = greeting;
    for (int edits = 0; edits < 3; ++edits) bytes[random() % bytes.size()] ^= static_cast<char>(1 << (random() % 8));
    RawPeer(place.address).say(std::string_view(bytes).substr(0, random() % bytes.size()));
  }
  EXPECT_EQ(door.waiting(), 0U);
  expectToWork(door);
}

TEST_F(TcpPeer, WhoKnowsADoorButNotItsSecretReachesNobody) {
  const Secret secret = secretOfText("correct horse", "here"), other = secretOfText("battery staple", "here");
  Doorway door(network_, secret);
  const tcp::Place place = tcp::decodePlace(door.address()).value();
  RawPeer guessing(place.address);
  guessing.greet(place.door, "guess", other);
  EXPECT_EQ(guessing.hear(1), "");
  // What one who knows it has said is worth nothing when it is said again.
  RawPeer honest(place.address);
  const std::string said = honest.greet(place.door, "honest", secret);
  auto taken = door.next();
  ASSERT_NE(taken, nullptr);
  taken->start(std::make_shared<Recorder>());
  EXPECT_EQ(honest.hear(honest.welcome().size()), honest.welcome());
  RawPeer replay(place.address);
  replay.say(said);
  EXPECT_EQ(replay.hear(1000).size(), tcp::kAnswerBytes + sizeof(Challenge)) << "a challenge, and the end";
  EXPECT_EQ(door.waiting(), 0U);
  // Ends of the network's own.
  for (const Secret& mine : {other, Secret{}}) {
    auto events = std::make_shared<Recorder>();
    auto link = network_->dial(door.address(), "", events, soon(), mine);
    const Status status = events->waitForClosed();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.toString();
    EXPECT_THAT(status.message(), HasSubstr("does it have the same secret?"));
  }
  auto events = std::make_shared<Recorder>(), takenEvents = std::make_shared<Recorder>();
  auto link = network_->dial(door.address(), "", events, soon(), secret);
  taken = door.next();
  ASSERT_NE(taken, nullptr);
  taken->start(takenEvents);
  EXPECT_TRUE(events->waitForRooms(1));
}

TEST_F(TcpPeer, AListenerThatDoesNotKnowTheSecretIsNotBelieved) {
  const Secret secret = secretOfText("correct horse", "here");
  FalseDoor door;
  for (const bool echo : {false, true}) {
    auto events = std::make_shared<Recorder>();
    auto link = network_->dial(door.address(), "hello", events, soon(), secret);
    auto peer = door.next();
    EXPECT_EQ(peer->hear(64 + 5).size(), 69U);
    peer->say(textOf(tcp::encodeAnswer(tcp::Answer::kProve)) + std::string(32, 'c'));
    const std::string proof = peer->hear(32);
    EXPECT_EQ(proof.size(), 32U);
    peer->say(textOf(tcp::encodeAnswer(tcp::Answer::kWelcome)) + (echo ? proof : std::string(32, 'p')));
    const Status status = events->waitForClosed();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.toString();
    EXPECT_THAT(status.message(), HasSubstr("does not know the communicator's secret"));
    EXPECT_EQ(events->rooms(), 0);
  }
  // Nor one that welcomes without having asked.
  auto events = std::make_shared<Recorder>();
  auto link = network_->dial(door.address(), "hello", events, soon(), secret);
  auto peer = door.next();
  peer->say(textOf(tcp::encodeAnswer(tcp::Answer::kWelcome)) + std::string(32, 'p'));
  EXPECT_EQ(events->waitForClosed().code(), StatusCode::kInvalidArgument);
}

TEST_F(TcpPeer, ManySilentStrangersLeaveRoomForOthers) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit more = before;
  more.rlim_cur = std::min<rlim_t>(before.rlim_max, 8192);
  ::setrlimit(RLIMIT_NOFILE, &more);
  if (more.rlim_cur < 4000) GTEST_SKIP() << "not enough descriptors";
  Doorway door(network_);
  const tcp::Place place = tcp::decodePlace(door.address()).value();
  std::vector<std::unique_ptr<RawPeer>> silent;
  for (int i = 0; i < 1100; ++i) silent.push_back(std::make_unique<RawPeer>(place.address));
  expectToWork(door);
  // The first ones had to go, before their time was over.
  EXPECT_EQ(silent.front()->hear(1, 3000), "");
  silent.clear();
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(TcpPeer, AnotherVersionIsRefusedByNameOnBothEnds) {
  Doorway door(network_);
  const tcp::Place place = tcp::decodePlace(door.address()).value();
  {
    RawPeer newer(place.address);
    testing::internal::CaptureStderr();
    newer.say(tcp::encodeGreeting(place.door, {}, "hello", tcp::kVersion + 1) + std::string(2000, 'x'));
    const std::string answer = newer.hear(1000);
    const std::string logged = testing::internal::GetCapturedStderr();
    EXPECT_EQ(answer, textOf(tcp::encodeAnswer(tcp::Answer::kOtherVersion)));
    EXPECT_THAT(logged, HasSubstr(base::strCat("version ", tcp::kVersion + 1))) << "the process that refuses says so";
    EXPECT_THAT(logged, HasSubstr(base::strCat("this one ", tcp::kVersion)));
  }
  EXPECT_EQ(door.waiting(), 0U);
  // The same at the end that dials: nothing behind the version is looked at.
  FalseDoor falseDoor;
  auto events = std::make_shared<Recorder>();
  auto link = network_->dial(falseDoor.address(), "", events, soon());
  auto older = falseDoor.next();
  std::string answer = textOf(tcp::encodeAnswer(tcp::Answer::kOtherVersion)).substr(0, 12);
  answer[8] = 77;
  older->say(answer);
  Status status = events->waitForClosed();
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << status.toString();
  EXPECT_THAT(status.message(), HasSubstr("version 77"));
  EXPECT_THAT(status.message(), HasSubstr(base::strCat("this one ", tcp::kVersion)));
  expectToWork(door);
}

TEST_F(TcpPeer, WhoDialsSomebodyElseIsTold) {
  struct Case {
    std::string answer;
    StatusCode code;
  };
  for (const Case& one : {Case{"", StatusCode::kUnavailable}, Case{"HPU", StatusCode::kUnavailable},
                          Case{"HTTP/1.1 400 Bad Request", StatusCode::kInvalidArgument},
                          Case{textOf(tcp::encodeAnswer(static_cast<tcp::Answer>(9))), StatusCode::kInvalidArgument}}) {
    FalseDoor door;
    auto events = std::make_shared<Recorder>();
    auto link = network_->dial(door.address(), "", events, soon());
    auto peer = door.next();
    peer->say(one.answer);
    peer->hear(64);  // Its greeting, so that the end is no reset.
    peer->end();
    Status status = events->waitForClosed();
    EXPECT_EQ(status.code(), one.code) << status.toString();
    EXPECT_EQ(events->rooms(), 0);
  }
}

TEST_F(TcpPeer, OneThatNeverAnswersIsWaitedForUntilTheDeadline) {
  FalseDoor door;
  auto events = std::make_shared<Recorder>();
  auto link = network_->dial(door.address(), "", events, soon(50));
  auto peer = door.next();
  Status status = events->waitForClosed();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.toString();
}

/// Where nobody listens on a port of its own range the system may connect a socket with itself.
TEST_F(TcpPeer, ALinkThatReachesItselfHasReachedNobody) {
  Address here = loopback();
  {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_storage storage;
    socklen_t size = toSockaddr(here, storage);
    ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&storage), size), 0);
    ASSERT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size), 0);
    here = fromSockaddr(storage).value();
    ::close(fd);
  }
  auto thread = ProgressThread::acquire().value();
  auto events = std::make_shared<Recorder>();
  auto link = std::make_shared<tcp::TcpLink>(thread->progress());
  tcp::Dialling whom;
  whom.place.address = here;
  link->dial(okStatus(), whom, here, events, soon());  // From that very port.
  const Status why = events->waitForClosed();
  EXPECT_EQ(why.code(), StatusCode::kUnavailable);
  EXPECT_THAT(why.message(), HasSubstr("cannot connect: Connection refused"));
  link->close();
}

}  // namespace
}  // namespace hpu::collectives::net
