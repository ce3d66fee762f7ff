// SPDX-License-Identifier: Apache-2.0
#include "tools/hccl-perf/LocalRanks.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "tools/hccl-perf/RankResults.h"

namespace hpu::tools {
namespace {

using collectives::UniqueId;

Status runProcesses(const std::vector<Workload>& works, const RankOptions& options, const Report& report) {
  Pipe results;
  HPU_RETURN_IF_ERROR(results.open());
  std::vector<Pipe> ids(static_cast<size_t>(options.ranks));
  for (Pipe& pipe : ids) HPU_RETURN_IF_ERROR(pipe.open());
  std::vector<pid_t> children;
  auto endAll = [&] {
    for (pid_t child : children)
      if (child > 0) ::kill(child, SIGKILL);
    for (pid_t child : children)
      if (child > 0) ::waitpid(child, nullptr, 0);
  };
  const pid_t parent = ::getpid();
  for (int rank = 0; rank < options.ranks; ++rank) {
    pid_t child = ::fork();
    if (child < 0) {
      endAll();
      return resourceExhausted(base::strCat("cannot start rank ", rank, ": ", std::strerror(errno)));
    }
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      // Ctrl-C reaches all; what it means is the parent's to say.
      for (int signal : {SIGINT, SIGHUP}) ::signal(signal, SIG_IGN);
      ::signal(SIGTERM, SIG_DFL);
      if (::getppid() != parent) ::_exit(1);
      results.closeRead();
      if (options.nodes > 1) ::setenv("HPU_NODE", nodeName(nodeOfRank(rank, options.ranks, options.nodes)).c_str(), 1);
      Status status = runOneRank(rank, works, options, results.write, [&]() -> StatusOr<UniqueId> {
        if (rank == 0) {
          RankMessage message;
          message.kind = RankMessage::kId;
          HPU_ASSIGN(message.id, collectives::createUniqueId());
          HPU_RETURN_IF_ERROR(writeAll(results.write, &message, sizeof(message)));
          return message.id;
        }
        UniqueId id;
        HPU_RETURN_IF_ERROR(readAll(ids[static_cast<size_t>(rank)].read, &id, sizeof(id)));
        return id;
      });
      sendEnd(rank, status, results.write).ignore();
      // The parent's objects are not this process's to end.
      ::_exit(status.ok() ? 0 : 1);
    }
    children.push_back(child);
  }
  results.closeWrite();
  for (Pipe& pipe : ids) pipe.closeRead();
  ResultCollector collector(options, results.read, report);
  Status status = collector.run(
      [&](const UniqueId& id) -> Status {
        for (size_t rank = 1; rank < ids.size(); ++rank)
          HPU_RETURN_IF_ERROR(writeAll(ids[rank].write, &id, sizeof(id)));
        return okStatus();
      },
      [&](int rank) -> std::string {
        int how = 0;
        pid_t& child = children[static_cast<size_t>(rank)];
        if (child <= 0 || ::waitpid(child, &how, WNOHANG) != child) return "";
        child = 0;
        return WIFSIGNALED(how) ? base::strCat("was ended by signal ", WTERMSIG(how))
                                : base::strCat("ended with status ", WEXITSTATUS(how));
      });
  if (!status.ok()) {
    endAll();
    return status;
  }
  for (pid_t child : children)
    if (child > 0) ::waitpid(child, nullptr, 0);
  return okStatus();
}

/// Lets all ranks stop at the same measurement: the first that none of them has begun when it is asked for.
class CommonEnd {
 public:
  explicit CommonEnd(std::function<bool()> wanted) : wanted_(std::move(wanted)) {}
  bool mayStart(size_t measurement) {
    std::lock_guard lock(mutex_);
    decided_ = decided_ || (wanted_ && wanted_());
    if (measurement < begun_) return true;
    if (decided_) return false;
    begun_ = measurement + 1;
    return true;
  }
  bool decided() {
    std::lock_guard lock(mutex_);
    return decided_;
  }

 private:
  const std::function<bool()> wanted_;
  std::mutex mutex_;  ///< Guards both.
  size_t begun_ = 0;
  bool decided_ = false;
};

Status runThreads(const std::vector<Workload>& works, RankOptions options, const Report& report) {
  CommonEnd end(std::exchange(options.interrupted, {}));
  options.run.mayStart = [&end](size_t measurement) { return end.mayStart(measurement); };
  Pipe results;
  HPU_RETURN_IF_ERROR(results.open());
  HPU_ASSIGN(UniqueId id, collectives::createUniqueId());
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < options.ranks; ++rank)
    threads.emplace_back([&, rank] {
      Status status = runOneRank(rank, works, options, results.write, [&]() -> StatusOr<UniqueId> { return id; });
      sendEnd(rank, status, results.write).ignore();
    });
  // A rank that fails makes the others fail: they are never left waiting.
  ResultCollector collector(options, results.read, report);
  HPU_RETURN_IF_ERROR(collector.run([](const UniqueId&) { return okStatus(); }, [](int) { return std::string(); }));
  return end.decided() ? cancelled("interrupted") : okStatus();
}

}  // namespace

int nodeOfRank(int rank, int ranks, int nodes) {
  const int least = ranks / nodes, more = ranks % nodes;  // The first `more` nodes have one more.
  const int inLarger = more * (least + 1);
  return rank < inLarger ? rank / (least + 1) : more + (rank - inLarger) / least;
}

std::string nodeName(int node) {
  const char* own = std::getenv("HPU_NODE");
  return base::strCat(own && *own ? own : "0", ".n", node);
}

Status runLocalRanks(const std::vector<Workload>& works, const RankOptions& options, const Report& report) {
  ::signal(SIGPIPE, SIG_IGN);
  return options.threads ? runThreads(works, options, report) : runProcesses(works, options, report);
}

}  // namespace hpu::tools
