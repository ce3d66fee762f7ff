// SPDX-License-Identifier: Apache-2.0
// A child that was forked off is no rank: it has nothing mapped, gets errors, and its end is not
// the rank's.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "ShmRank.h"
#include "collectives/transport/shm/Memories.h"
#include "collectives/transport/shm/Process.h"
#include "runtime/node/Inventory.h"
#include "tests/unit/base/ForkOften.h"

namespace hpu::collectives {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kMayFork = false;  // It does not support a child of a program with threads.
#else
constexpr bool kMayFork = true;
#endif

/// The exit code of what a child does.
int inChild(const std::function<int()>& what) {
  pid_t child = ::fork();
  if (child == 0) ::_exit(what());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST(ShmFork, AChildGetsErrorsAndTheRankGoesOn) {
  if (!kMayFork) GTEST_SKIP() << "no fork under ThreadSanitizer";
  auto devices = testing::openDevices(2);
  auto ranks = testing::createRanks(2, devices);
  ASSERT_TRUE(ranks[0].ok() && ranks[1].ok());
  std::shared_ptr<Transport> rank = *ranks[0];
  rank->setProgressSource([] { return uint64_t{1}; });
  EXPECT_EQ(inChild([&] {
              if (testing::holdings().segments != 0) return 1;
              std::byte byte{};
              if (rank->offer(1, Lane::kCollective, &byte, 1, {}).status().code() != StatusCode::kFailedPrecondition)
                return 2;
              if (rank->peerStatus(1).ok() || rank->local(kHbmBase, 1)) return 3;
              if (rank->arrived(1, Lane::kCollective, 0) || rank->record(1, 1)) return 4;
              if (rank->released(1, Lane::kCollective) || rank->lastSequence(1)) return 5;
              CallRecord record;
              record.sequence = 1;
              if (rank->publish(record)) return 6;
              rank->retire(1);
              rank->release(1, Lane::kCollective);
              rank->wake();
              rank->waitForChange(rank->changes(), std::chrono::steady_clock::now());
              rank->abort(internalError("a child has nothing to say"));
              rank->setProgressSource({});
              if (rank->heartbeat(1) != 0 || rank->describe(1).empty()) return 7;
              if (!rank->abortReason(1).ok()) return 8;
              rank.reset();
              ranks.clear();
              // It may have a communicator of its own, without the parent's devices.
              auto own = testing::createRanks(2, {});
              return own[0].ok() && own[1].ok() ? 0 : 9;
            }),
            0);
  EXPECT_TRUE((*ranks[1])->peerStatus(0).ok()) << (*ranks[1])->peerStatus(0).message();
  std::byte byte{};
  EXPECT_TRUE(rank->offer(1, Lane::kCollective, &byte, 1, {}).ok());
  EXPECT_TRUE((*ranks[1])->arrived(0, Lane::kCollective, 0).has_value());
}

TEST(ShmFork, AProgramThatIsStartedInheritsNothing) {
  auto devices = testing::openDevices(1);
  auto ranks = testing::createRanks(2, {});
  ASSERT_TRUE(ranks[0].ok());
  FILE* listing = ::popen("ls -l /proc/self/fd/ && cat /proc/self/maps", "r");
  ASSERT_NE(listing, nullptr);
  std::string text;
  for (char line[512]; std::fgets(line, sizeof line, listing);) text += line;
  ::pclose(listing);
  EXPECT_NE(text.find("pipe:"), std::string::npos) << text;
  for (const char* ours : {"hpu-communicator", "hpu-hbm", "pidfd", "eventpoll", "eventfd", "socket:"})
    EXPECT_EQ(text.find(ours), std::string::npos) << text;
}

TEST(ShmFork, AChildMapsDevicesAnew) {
  if (!kMayFork) GTEST_SKIP() << "no fork under ThreadSanitizer";
  auto devices = testing::openDevices(1);
  auto parents = shm::deviceMemory(devices[0].info().index, 20000);
  ASSERT_TRUE(parents.ok()) << parents.status().message();
  // A child is another process: it is given what it maps.
  auto grant = node::MemoryGrant::create(devices[0].info().index);
  ASSERT_TRUE(grant.ok()) << grant.status().toString();
  EXPECT_EQ(inChild([&] {
              ::alarm(60);
              auto own = shm::deviceMemory(devices[0].info().index, 20000, (*grant)->token());
              if (!own.ok()) return 1;
              std::byte* at = (*own)->at((*own)->base(), 8);
              if (!at || *own == *parents) return 2;
              *at = std::byte{42};  // The parent's is not mapped here.
              return 0;
            }),
            0);
  EXPECT_EQ(*(*parents)->at((*parents)->base(), 8), std::byte{42});
}

TEST(ShmFork, AChildDoesNotWaitForWhatItsParentAsks) {
  if (!base::kMayForkWhenBusy) GTEST_SKIP() << "not under a sanitizer";
  // An owner of device 7 that never answers.
  sockaddr_un address;
  const uint32_t bytes = node::socketAddress(node::socketName(node::identity().value(), 7), address);
  node::Fd owner(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(owner.get(), reinterpret_cast<sockaddr*>(&address), bytes), 0);
  ASSERT_EQ(::listen(owner.get(), 8), 0);
  Status answer;
  std::thread asker([&] { answer = shm::deviceMemory(7, 60000).status(); });
  pollfd caller{owner.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&caller, 1, 60000), 1);
  EXPECT_EQ(inChild([] {
              ::alarm(30);
              return shm::deviceMemory(7, 100).status().code() == StatusCode::kDeadlineExceeded ? 0 : 1;
            }),
            0);
  owner.reset();  // Hangs up.
  asker.join();
  EXPECT_FALSE(answer.ok());
}

TEST(ShmFork, AChildOfThreadsThatMakeCommunicatorsMakesItsOwn) {
  if (!base::kMayForkWhenBusy) GTEST_SKIP() << "not under a sanitizer";
  auto one = [] { EXPECT_NE(shm::myProcess().token, 0u); };
  auto create = [] { EXPECT_TRUE(testing::createRanks(2, {})[0].ok()); };
  one();
  create();
  base::BusyThreads threads({one, one, create});
  base::forkOften(100, [] {
    auto own = testing::createRanks(2, {});
    return own[0].ok() && own[1].ok() ? 0 : 1;
  });
}

}  // namespace
}  // namespace hpu::collectives
