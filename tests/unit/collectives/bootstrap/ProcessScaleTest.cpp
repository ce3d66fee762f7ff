// SPDX-License-Identifier: Apache-2.0
// What the creation of a communicator of 1,024 ranks in 32 processes sends, by process. The processes are this
// program, run again for its disabled test.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/Format.h"
#include "collectives/bootstrap/Bootstrap.h"
#include "tests/unit/collectives/bootstrap/Ranks.h"

extern char** environ;

namespace hpu::collectives {
namespace {

constexpr int kProcesses = 32, kRanksEach = 32, kRanks = kProcesses * kRanksEach;
constexpr const char* kWorker = "HPU_TEST_SCALE_WORKER";  // "process layout id-or-empty".

/// How ranks are shared out among processes, as launchers do.
enum Layout { kBlocks, kRoundRobin };

bool mayOpen(rlim_t descriptors) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur >= descriptors;
}

/// What a rank tells of itself, with the sizes of the shared-memory transport's cards: what is of the machine, of
/// the process, and of the rank alone.
struct Card {
  uint64_t magic = 0x48505553484d3031;
  uint32_t version = 3;
  int32_t device = 0;
  int64_t memoryBytes = int64_t{96} << 30;
  struct {
    uint64_t bootId[2] = {0x1234567812345678, 0x8765432187654321};
    uint64_t networkNamespace = 4026531840, pidNamespace = 4026531836, token = 0;
    int64_t pid = 0;
    uint64_t startTime = 0;
    uint64_t user = 1000;
  } process;
  uint64_t segment[2] = {};
  uint64_t grant[2] = {};
};

/// The gatherings of a communicator's creation. Errors also when a value is not the one that its rank gave.
Status create(Bootstrap& all, int process, uint64_t token) {
  std::mt19937_64 random(static_cast<uint64_t>(all.rank()) + 1);
  Card card;
  card.device = all.rank() % 8;
  card.process.token = token;
  card.process.pid = 4000 + process;
  card.process.startTime = 123456 + static_cast<uint64_t>(process) * 17;
  const UniqueId hall = encodeId({.address = all.local(), .nonce = random()});
  std::string compare(reinterpret_cast<const char*>(&card.process), sizeof card.process);
  compare.append(reinterpret_cast<const char*>(hall.bytes), sizeof hall.bytes);
  compare.append(reinterpret_cast<const char*>(&card.device), sizeof card.device);
  compare += "gaudi3\n0123456789abcdef\n\n";
  for (uint64_t& word : card.grant) word = random();
  // The door of another network may be anything.
  std::string door;
  while (door.size() < 128) door += static_cast<char>(random());
  const std::string shm(reinterpret_cast<const char*>(&card), sizeof card);
  const std::pair<const char*, std::string> values[] = {{"compare", compare},   {"shm cards", shm},
                                                        {"shm ready", "ready"}, {"net cards", door},
                                                        {"net links", "ok"},    {"net ready", "ok"}};
  for (const auto& [phase, mine] : values) {
    auto got = all.allGather(phase, mine, soon(60000));
    if (!got.ok()) return got.status();
    if ((*got)[static_cast<size_t>(all.rank())] != mine) return internalError(base::strCat("wrong value in ", phase));
    if (mine == "ok" && std::count(got->begin(), got->end(), "ok") != kRanks) return internalError("not ok");
    if (mine == door && (*got)[static_cast<size_t>((all.rank() + 1) % kRanks)].size() != 128)
      return internalError("no door");
  }
  return all.barrier("ready", soon(60000));
}

std::string hex(const UniqueId& id) {
  std::string text;
  for (uint8_t byte : id.bytes) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", byte);
    text += two;
  }
  return text;
}

TEST(ScaleWorker, DISABLED_IsAProcessOfRanks) {
  const char* given = std::getenv(kWorker);
  if (!given) GTEST_SKIP() << "run by another test";
  mayOpen(0);
  int process = 0, layout = 0;
  char text[300] = {};
  ASSERT_GE(std::sscanf(given, "%d %d %299s", &process, &layout, text), 2);
  UniqueId id;
  if (process == 0) {
    id = createUniqueId().value();
    std::printf("id %s\n", hex(id).c_str());
    std::fflush(stdout);
  } else {
    for (size_t i = 0; i < sizeof id.bytes; ++i) {
      unsigned byte = 0;
      ASSERT_EQ(std::sscanf(text + 2 * i, "%2x", &byte), 1);
      id.bytes[i] = static_cast<uint8_t>(byte);
    }
  }
  const uint64_t token = std::random_device{}() * uint64_t{0x9e3779b97f4a7c15};
  std::vector<Traffic> sent(kRanksEach);
  Traffic all;
  auto results = onRanks<Status>(kRanksEach, [&](int local) {
    const int rank = layout == kBlocks ? process * kRanksEach + local : local * kProcesses + process;
    auto joined = Bootstrap::join(id, rank, kRanks, {.timeoutMs = 60000});
    if (!joined.ok()) return joined.status();
    Status status = create(**joined, process, token);
    sent[static_cast<size_t>(local)] = (*joined)->traffic();
    if (rank == 0) all = *Coordinator::instance()->traffic(decodeId(id)->nonce);
    return status.ok() ? (*joined)->barrier("end", soon(60000)) : status;
  });
  for (const Status& status : results) ASSERT_TRUE(status.ok()) << status.toString();
  for (const Traffic& one : sent) {
    all.messages += one.messages;
    all.bytes += one.bytes;
  }
  std::printf("sent %llu %llu\n", static_cast<unsigned long long>(all.messages),
              static_cast<unsigned long long>(all.bytes));
  std::fflush(stdout);
}

/// A process that runs the worker, and what it says.
class Worker {
 public:
  Worker(int process, Layout layout, const std::string& id) {
    std::string variable = base::strCat(kWorker, "=", process, " ", static_cast<int>(layout), " ", id);
    std::vector<char*> environment;
    for (char** entry = environ; *entry; ++entry) environment.push_back(*entry);
    environment.push_back(variable.data());
    environment.push_back(nullptr);
    std::string program = "/proc/self/exe", filter = "--gtest_filter=ScaleWorker.DISABLED_IsAProcessOfRanks",
                disabled = "--gtest_also_run_disabled_tests";
    char* arguments[] = {program.data(), filter.data(), disabled.data(), nullptr};
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    EXPECT_EQ(::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environment.data()), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    out_ = ends[0];
  }
  ~Worker() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(out_);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// What follows `word` on the line that begins with it; empty when none comes.
  std::string await(const std::string& word) {
    const std::string begin = "\n" + word + " ";
    for (;;) {
      const size_t at = said_.find(begin);
      const size_t end = at == std::string::npos ? at : said_.find('\n', at + 1);
      if (end != std::string::npos) return said_.substr(at + begin.size(), end - at - begin.size());
      pollfd entry{out_, POLLIN, 0};
      char buffer[4096];
      ssize_t got = ::poll(&entry, 1, 90000) > 0 ? ::read(out_, buffer, sizeof buffer) : 0;
      if (got <= 0) return {};
      said_.append(buffer, static_cast<size_t>(got));
    }
  }
  const std::string& said() const { return said_; }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  std::string said_ = "\n";
};

class ScaleProcess : public testing::TestWithParam<Layout> {};

TEST_P(ScaleProcess, CreationOf1024RanksIn32ProcessesSendsLittle) {
  if (!mayOpen(kRanks + 200)) GTEST_SKIP() << "too few descriptors for the coordinator's process";
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::unique_ptr<Worker>> workers;
  workers.push_back(std::make_unique<Worker>(0, GetParam(), ""));
  const std::string id = workers[0]->await("id");
  ASSERT_EQ(id.size(), 2 * sizeof(UniqueId)) << workers[0]->said();
  for (int process = 1; process < kProcesses; ++process)
    workers.push_back(std::make_unique<Worker>(process, GetParam(), id));
  Traffic all, most;
  for (auto& worker : workers) {
    const std::string sent = worker->await("sent");
    unsigned long long messages = 0, bytes = 0;
    ASSERT_EQ(std::sscanf(sent.c_str(), "%llu %llu", &messages, &bytes), 2) << worker->said();
    all.messages += messages;
    all.bytes += bytes;
    most.messages = std::max<uint64_t>(most.messages, messages);
    most.bytes = std::max<uint64_t>(most.bytes, bytes);
  }
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
  std::printf("%d ranks in %d processes: %llu messages, %llu bytes; the most of one process: %llu and %llu; %lld ms\n",
              kRanks, kProcesses, static_cast<unsigned long long>(all.messages),
              static_cast<unsigned long long>(all.bytes), static_cast<unsigned long long>(most.messages),
              static_cast<unsigned long long>(most.bytes), static_cast<long long>(ms.count()));
  EXPECT_LE(all.messages, 20000u);
  EXPECT_LE(most.bytes, 2000000u);
}

INSTANTIATE_TEST_SUITE_P(Layouts, ScaleProcess, testing::Values(kBlocks, kRoundRobin));

}  // namespace
}  // namespace hpu::collectives
