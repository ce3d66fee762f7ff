// SPDX-License-Identifier: Apache-2.0
// TCP networks and processes: peers that are killed, forked children, descriptors that run out, ends of programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fcntl.h>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/base/ForkOften.h"
#include "tests/unit/collectives/bootstrap/NoDescriptors.h"
#include "tests/unit/collectives/transport/Links.h"
#include "tests/unit/collectives/transport/RawPeer.h"

/// What a program's threads hold for a moment looks like leaks when it exits in the middle of something.
static bool gExitsInTheMiddle = false;
extern "C" int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off() {
  return gExitsInTheMiddle ? 1 : 0;
}

namespace hpu::collectives::net {
namespace {

#if defined(__SANITIZE_THREAD__)
#define HPU_SKIP_WITHOUT_FORK() GTEST_SKIP() << "ThreadSanitizer does not support a child of a program with threads"
#else
#define HPU_SKIP_WITHOUT_FORK()
#endif

std::ptrdiff_t countOf(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

/// A child that runs `body` to its end, or until it is killed.
class Child {
 public:
  template <typename Body>
  explicit Child(Body body) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::alarm(60);
    ::_exit(body());
  }
  ~Child() { kill(); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    wait();
  }
  /// Its status; -1: it did not end by itself.
  int wait() {
    int status = -1;
    if (pid_ > 0) ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_;
};

/// Dials, says so, and stays. Not 0: it did not work.
int dialAndStay(const std::string& address) {
  auto network = tcpNetwork(loopback());
  if (!network.ok()) return 2;
  auto events = std::make_shared<Recorder>();
  auto link = (*network)->dial(address, "child", events, soon());
  if (!events->waitForRooms(1) || !link->send(bytesOf("last words"))) return 3;
  for (;;) ::pause();
}

TEST(TcpProcess, APeerThatIsKilledIsUnavailableAfterItsFrames) {
  HPU_SKIP_WITHOUT_FORK();
  auto network = tcpNetwork(loopback()).value();
  Doorway door(network);
  Child child([&] { return dialAndStay(door.address()); });
  auto events = std::make_shared<Recorder>();
  auto link = door.next();
  ASSERT_NE(link, nullptr);
  link->start(events);
  ASSERT_TRUE(events->waitForFrames(1));
  child.kill();
  EXPECT_EQ(events->waitForClosed().code(), StatusCode::kUnavailable);
  EXPECT_EQ(events->frames(), std::vector<std::string>{"last words"});
}

TEST(TcpProcess, AChildOfThePeerDoesNotHideItsEnd) {
  HPU_SKIP_WITHOUT_FORK();
  auto network = tcpNetwork(loopback()).value();
  Doorway door(network);
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  Child child([&] {
    auto own = tcpNetwork(loopback());
    if (!own.ok()) return 2;
    auto events = std::make_shared<Recorder>();
    auto link = (*own)->dial(door.address(), "child", events, soon());
    if (!events->waitForRooms(1)) return 3;
    // The grandchild lives on for as long as the test holds the pipe.
    if (::fork() == 0) {
      ::close(pipe[1]);
      char byte;
      ::alarm(60);
      (void)!::read(pipe[0], &byte, 1);
      ::_exit(0);
    }
    link->send(bytesOf("forked"));
    for (;;) ::pause();
  });
  auto events = std::make_shared<Recorder>();
  auto link = door.next();
  ASSERT_NE(link, nullptr);
  link->start(events);
  ASSERT_TRUE(events->waitForFrames(1));
  child.kill();
  EXPECT_EQ(events->waitForClosed().code(), StatusCode::kUnavailable);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST(TcpProcess, AForkedChildHasItsOwnAndLeavesItsParentsAlone) {
  HPU_SKIP_WITHOUT_FORK();
  auto network = tcpNetwork(loopback()).value();
  auto ends = std::make_unique<Ends>(network);
  auto door = std::make_unique<Doorway>(network);
  std::byte memory[8];
  Child child([&]() -> int {
    if (!ends->dialled->send(bytesOf("from the child"))) return 1;
    if (!ends->dialled->write(1, memory, 8, {1, 1}, {})) return 2;
    ends->taken->closeWindow(ends->taken->openWindow(memory, 8));
    ends->taken->close();
    if (network->open([](auto, const auto&) {}).status().code() != StatusCode::kFailedPrecondition) return 3;
    auto events = std::make_shared<Recorder>();
    auto link = network->dial(door->address(), "", events, soon());
    if (events->waitForClosed().code() != StatusCode::kFailedPrecondition) return 4;
    link = nullptr;
    // Its own.
    auto own = tcpNetwork(loopback());
    if (!own.ok() || *own == network) return 5;
    Ends ownEnds(*own);
    if (!ownEnds.dialled->send(bytesOf("frame")) || !ownEnds.takenEvents->waitForFrames(1)) return 6;
    ends.reset();
    door.reset();
    network.reset();
    return testing::Test::HasFailure() ? 7 : 0;
  });
  EXPECT_EQ(child.wait(), 0);
  // The parent goes on.
  EXPECT_TRUE(ends->dialled->send(bytesOf("frame")));
  EXPECT_TRUE(ends->takenEvents->waitForFrames(1));
  EXPECT_EQ(ends->takenEvents->frames(), std::vector<std::string>{"frame"});
}

TEST(TcpProcess, ForksOfABusyProcess) {
  if (!base::kMayForkWhenBusy) GTEST_SKIP() << "not under a sanitizer";
  auto network = tcpNetwork(loopback()).value();
  Ends ends(network);
  std::vector<std::byte> data(100000), target(100000);
  base::BusyThreads threads({[&] { Ends more(network); },
                             [&] {
                               const size_t before = ends.dialledEvents->written().size();
                               const Window window = ends.taken->openWindow(target.data(), 100000);
                               ends.dialled->write(1, data.data(), 100000, window, {});
                               EXPECT_TRUE(ends.dialledEvents->waitForWritten(before + 1));
                             }});
  base::forkOften(100, [&] {
    ends.dialled->close();
    auto own = tcpNetwork(loopback());
    if (!own.ok()) return 1;
    Ends ownEnds(*own);
    if (!ownEnds.dialled->send(bytesOf("frame")) || !ownEnds.takenEvents->waitForFrames(1)) return 2;
    return 0;
  });
}

TEST(TcpProcess, WithoutDescriptorsItWaitsForSome) {
  auto network = tcpNetwork(loopback()).value();
  Doorway door(network);
  auto events = std::make_shared<Recorder>();
  std::shared_ptr<Link> link;
  {
    NoDescriptors none(1);  // The dialler's, and none for the end that is accepted.
    link = network->dial(door.address(), "", events, soon());
    auto more = std::make_shared<Recorder>();
    auto refused = network->dial(door.address(), "", more, soon());
    EXPECT_EQ(more->waitForClosed().code(), StatusCode::kResourceExhausted);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(door.waiting(), 0U);
    EXPECT_EQ(events->rooms(), 0);
  }
  auto taken = door.next();
  ASSERT_NE(taken, nullptr);
  taken->start(std::make_shared<Recorder>());
  EXPECT_TRUE(events->waitForRooms(1));
}

TEST(TcpProcess, WithoutDescriptorsASilentStrangerMakesRoomForALink) {
  auto network = tcpNetwork(loopback()).value();
  Doorway door(network);
  const tcp::Place place = tcp::decodePlace(door.address()).value();
  // Strangers have ten seconds: four of them that stayed so long would take more than there is for all.
  const auto patience = base::Deadline::afterMs(30000);
  for (int round = 0; round < 4; ++round) {
    RawPeer silent(place.address);
    silent.say(tcp::encodeGreeting(place.door, randomChallenge().value(), "who proves nothing"));
    // It has been accepted, and holds a descriptor.
    const size_t challenge = tcp::kAnswerBytes + sizeof(Challenge);
    ASSERT_EQ(silent.hear(challenge).size(), challenge);
    NoDescriptors none(1);  // The dialler's, and none for the end that is accepted.
    auto link = network->dial(door.address(), "", std::make_shared<Recorder>(), soon());
    auto taken = door.next();
    ASSERT_NE(taken, nullptr) << round;
    EXPECT_EQ(silent.hear(1), "") << round;
  }
  EXPECT_FALSE(patience.expired());
}

TEST(TcpProcess, NeitherThreadsNorDescriptorsAreLeft) {
  const auto threads = countOf("/proc/self/task"), descriptors = countOf("/proc/self/fd");
  for (int round = 0; round < 10; ++round) {
    auto network = tcpNetwork(loopback()).value();
    EXPECT_EQ(countOf("/proc/self/task"), threads + 1);
    Doorway door(network);
    std::vector<std::unique_ptr<Ends>> ends;
    for (int i = 0; i < 5; ++i) ends.push_back(std::make_unique<Ends>(network));
    auto nowhere = network->dial(door.address(), "", std::make_shared<Recorder>(), soon());
    if (round % 2 == 0) ends[0]->dialled->send(bytesOf("frame"));
    if (round % 3 == 0) ends[1]->taken->close();
  }
  // One that has been joined is in /proc for a moment yet.
  for (auto patience = soon(); countOf("/proc/self/task") != threads && !patience.expired();) std::this_thread::yield();
  EXPECT_EQ(countOf("/proc/self/task"), threads);
  EXPECT_EQ(countOf("/proc/self/fd"), descriptors);
}

TEST(TcpProcess, TheThreadMayLoseItsLastHandleItself) {
  for (int round = 0; round < 20; ++round) {
    auto ends = std::make_unique<Ends>(tcpNetwork(loopback()).value());
    auto events = ends->takenEvents;
    auto dialled = ends->dialled;
    std::promise<void> gone;
    events->frameHook = [&](std::span<const std::byte>) {
      ends.reset();
      dialled.reset();
      gone.set_value();
    };
    dialled->send(bytesOf("go"));
    ASSERT_EQ(gone.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  }
}

TEST(TcpProcess, AProgramEndsWithItsNetworksInUse) {
  HPU_SKIP_WITHOUT_FORK();
  Child child([&]() -> int {
    gExitsInTheMiddle = true;
    // As they are until the end of all: they outlive the thread.
    static auto* network = new std::shared_ptr<Network>(tcpNetwork(loopback()).value());
    static auto* ends = new Ends(*network);
    static auto* data = new std::vector<std::byte>(size_t{32} << 20);
    const int64_t half = int64_t{16} << 20;
    ends->dialled->write(1, data->data(), half, ends->taken->openWindow(data->data() + half, half), {});
    std::exit(0);
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace hpu::collectives::net
