// SPDX-License-Identifier: Apache-2.0
#include "tools/hccl-perf/LocalRanks.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <string>
#include <thread>

#include "base/Deadline.h"
#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::tools {
namespace {

using collectives::Communicator;
using collectives::UniqueId;

/// What ranks tell the parent, one a write: smaller than a pipe's atomic size.
struct Message {
  enum Kind : uint32_t { kId, kResult, kFailed, kDone } kind = kDone;
  uint32_t rank = 0;
  uint64_t work = 0;
  uint32_t inPlace = 0;
  int32_t code = 0;
  Measurement result;
  UniqueId id;
  char text[1600] = {};
};
static_assert(sizeof(Message) <= 4096);

Status writeAll(int fd, const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    ssize_t written = ::write(fd, from, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      return unavailable(
          base::strCat("a pipe between hccl-perf's ranks broke: ", std::strerror(errno)));
    from += written;
    bytes -= static_cast<size_t>(written);
  }
  return okStatus();
}

Status readAll(int fd, void* data, size_t bytes) {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    ssize_t got = ::read(fd, to, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return unavailable("a pipe between hccl-perf's ranks was closed");
    to += got;
    bytes -= static_cast<size_t>(got);
  }
  return okStatus();
}

/// `meet` gives every rank rank 0's id.
Status runOne(int rank, const std::vector<Workload>& works, const RankOptions& options, int results,
              const std::function<StatusOr<UniqueId>(int)>& meet) {
  DeviceOptions wanted;
  wanted.target = options.target;
  HPU_ASSIGN(hpu::Device device, hpu::Device::open(wanted));
  HPU_ASSIGN(UniqueId id, meet(rank));
  collectives::CommunicatorOptions comm;
  comm.tunerTable = options.tunerTable;
  HPU_ASSIGN(Communicator communicator,
             Communicator::create(id, rank, options.ranks, device, comm));
  return runRank(device, communicator, works, options.run,
                 [&](size_t work, bool inPlace, const Measurement& result) {
                   Message message;
                   message.kind = Message::kResult;
                   message.rank = static_cast<uint32_t>(rank);
                   message.work = work;
                   message.inPlace = inPlace;
                   message.result = result;
                   return writeAll(results, &message, sizeof(message));
                 });
}

void sendEnd(int rank, const Status& status, int results) {
  Message message;
  message.kind = status.ok() ? Message::kDone : Message::kFailed;
  message.rank = static_cast<uint32_t>(rank);
  message.code = static_cast<int32_t>(status.code());
  std::strncpy(message.text, status.message().c_str(), sizeof(message.text) - 1);
  writeAll(results, &message, sizeof(message)).ignore();
}

struct Pipe {
  int read = -1, write = -1;
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    closeRead();
    closeWrite();
  }
  Status open() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0)
      return resourceExhausted(base::strCat("cannot make a pipe: ", std::strerror(errno)));
    read = fds[0];
    write = fds[1];
    return okStatus();
  }
  void closeRead() {
    if (read >= 0) ::close(read);
    read = -1;
  }
  void closeWrite() {
    if (write >= 0) ::close(write);
    write = -1;
  }
};

/// The ranks' messages until all are done or one has failed.
class Collector {
 public:
  Collector(const RankOptions& options, int results, std::function<void(const Combined&)> report)
      : options_(options),
        results_(results),
        done_(static_cast<size_t>(options.ranks)),
        report_(std::move(report)) {}

  /// `relayId` is called with rank 0's id; `ended` says whether a rank has died without a word, and
  /// how.
  Status run(const std::function<Status(const UniqueId&)>& relayId,
             const std::function<std::string(int)>& ended) {
    base::Deadline deadline = base::Deadline::afterMs(options_.timeoutMs);
    while (std::find(done_.begin(), done_.end(), false) != done_.end()) {
      pollfd wanted{results_, POLLIN, 0};
      int ready = ::poll(&wanted, 1, 100);
      if (ready < 0 && errno != EINTR)
        return internalError(base::strCat("poll failed: ", std::strerror(errno)));
      if (ready <= 0) {
        for (int rank = 0; rank < options_.ranks; ++rank) {
          std::string how = done_[static_cast<size_t>(rank)] ? "" : ended(rank);
          if (!how.empty()) return unavailable(base::strCat("rank ", rank, " ", how));
        }
        if (deadline.expired())
          return deadlineExceeded(
              base::strCat("no result within ", deadline.totalMs(), " ms of the ranks", missing()));
        continue;
      }
      Message message;
      HPU_RETURN_IF_ERROR(readAll(results_, &message, sizeof(message)));
      deadline = base::Deadline::afterMs(options_.timeoutMs);
      switch (message.kind) {
        case Message::kId:
          HPU_RETURN_IF_ERROR(relayId(message.id));
          break;
        case Message::kResult:
          add(message);
          break;
        case Message::kDone:
          done_[message.rank] = true;
          break;
        case Message::kFailed:
          return Status(static_cast<StatusCode>(message.code),
                        base::strCat("rank ", message.rank, ": ", message.text));
      }
    }
    return okStatus();
  }

 private:
  std::string missing() const {
    std::string text;
    for (size_t rank = 0; rank < done_.size(); ++rank)
      if (!done_[rank]) text += base::strCat(" ", rank);
    return text;
  }
  void add(const Message& message) {
    Entry& entry = entries_[{message.work, message.inPlace}];
    Combined& sum = entry.combined;
    sum.work = message.work;
    sum.inPlace = message.inPlace != 0;
    sum.result.wallUs = std::max(sum.result.wallUs, message.result.wallUs);
    sum.result.deviceUs = std::max(sum.result.deviceUs, message.result.deviceUs);
    if (message.result.wrong >= 0)
      sum.result.wrong = std::max<int64_t>(sum.result.wrong, 0) + message.result.wrong;
    if (++entry.ranks < options_.ranks) return;
    report_(sum);
    entries_.erase({message.work, message.inPlace});
  }
  struct Entry {
    Combined combined;
    int ranks = 0;
  };
  const RankOptions& options_;
  const int results_;
  std::vector<bool> done_;
  std::map<std::pair<uint64_t, uint32_t>, Entry> entries_;
  const std::function<void(const Combined&)> report_;
};

Status runProcesses(const std::vector<Workload>& works, const RankOptions& options,
                    const std::function<void(const Combined&)>& report) {
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
      return resourceExhausted(
          base::strCat("cannot start rank ", rank, ": ", std::strerror(errno)));
    }
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      results.closeRead();
      Status status =
          runOne(rank, works, options, results.write, [&](int self) -> StatusOr<UniqueId> {
            if (self == 0) {
              Message message;
              message.kind = Message::kId;
              HPU_ASSIGN(message.id, collectives::createUniqueId());
              HPU_RETURN_IF_ERROR(writeAll(results.write, &message, sizeof(message)));
              return message.id;
            }
            UniqueId id;
            HPU_RETURN_IF_ERROR(readAll(ids[static_cast<size_t>(self)].read, &id, sizeof(id)));
            return id;
          });
      sendEnd(rank, status, results.write);
      // The parent's objects are not this process's to end.
      ::_exit(status.ok() ? 0 : 1);
    }
    children.push_back(child);
  }
  results.closeWrite();
  for (Pipe& pipe : ids) pipe.closeRead();
  Collector collector(options, results.read, report);
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

Status runThreads(const std::vector<Workload>& works, const RankOptions& options,
                  const std::function<void(const Combined&)>& report) {
  Pipe results;
  HPU_RETURN_IF_ERROR(results.open());
  HPU_ASSIGN(UniqueId id, collectives::createUniqueId());
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < options.ranks; ++rank)
    threads.emplace_back([&, rank] {
      Status status = runOne(rank, works, options, results.write,
                             [&](int) -> StatusOr<UniqueId> { return id; });
      sendEnd(rank, status, results.write);
    });
  // A rank that fails makes the others fail: they are never left waiting.
  Collector collector(options, results.read, report);
  return collector.run([](const UniqueId&) { return okStatus(); },
                       [](int) { return std::string(); });
}

}  // namespace

Status runLocalRanks(const std::vector<Workload>& works, const RankOptions& options,
                     const std::function<void(const Combined&)>& report) {
  ::signal(SIGPIPE, SIG_IGN);
  return options.threads ? runThreads(works, options, report)
                         : runProcesses(works, options, report);
}

}  // namespace hpu::tools
