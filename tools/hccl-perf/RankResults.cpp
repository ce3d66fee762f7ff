// SPDX-License-Identifier: Apache-2.0
#include "tools/hccl-perf/RankResults.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/Deadline.h"
#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::tools {

using collectives::Communicator;
using collectives::UniqueId;

Status writeAll(int fd, const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    ssize_t written = ::write(fd, from, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      return unavailable(base::strCat("a pipe between hccl-perf's ranks broke: ", std::strerror(errno)));
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

Status Pipe::open() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0)
    return resourceExhausted(base::strCat("cannot make a pipe: ", std::strerror(errno)));
  read = fds[0];
  write = fds[1];
  return okStatus();
}
void Pipe::closeRead() {
  if (read >= 0) ::close(read);
  read = -1;
}
void Pipe::closeWrite() {
  if (write >= 0) ::close(write);
  write = -1;
}

// ---- A rank -------------------------------------------------------------------------------------

Status runOneRank(int rank, const std::vector<Workload>& works, const RankOptions& options, int results,
                  const hpu::Device& device, const UniqueId& id, const std::function<Status()>& interrupted) {
  collectives::CommunicatorOptions comm;
  comm.tunerTable = options.tunerTable;
  comm.blocking = !interrupted;
  HPU_ASSIGN(Communicator communicator, Communicator::create(id, rank, options.ranks, device, comm));
  while (!communicator.ready().ok()) {
    HPU_RETURN_IF_ERROR(communicator.asyncError());
    if (Status over = interrupted(); !over.ok()) {
      communicator.abort(over.message()).ignore();
      return over;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return runRank(device, communicator, works, options.run, [&](size_t work, bool inPlace, const Measurement& result) {
    RankMessage message;
    message.kind = RankMessage::kResult;
    message.rank = static_cast<uint32_t>(rank);
    message.work = work;
    message.inPlace = inPlace;
    message.result = result;
    return writeAll(results, &message, sizeof(message));
  });
}

StatusOr<hpu::Device> openDeviceOf(const collectives::LauncherEnvironment& launch, Target target) {
  DeviceOptions wanted;
  wanted.target = target;
  if (launch.localRank >= 0) {
    wanted.index = launch.localRank;
    if (auto device = hpu::Device::open(wanted); device.ok()) return device;
    wanted.index = kAnyDevice;
  }
  return hpu::Device::open(wanted);
}

Status runOneRank(int rank, const std::vector<Workload>& works, const RankOptions& options, int results,
                  const std::function<StatusOr<UniqueId>()>& meet) {
  DeviceOptions wanted;
  wanted.target = options.target;
  HPU_ASSIGN(hpu::Device device, hpu::Device::open(wanted));
  HPU_ASSIGN(UniqueId id, meet());
  return runOneRank(rank, works, options, results, device, id, nullptr);
}

Status sendEnd(int rank, const Status& status, int results) {
  RankMessage message;
  message.kind = status.ok() ? RankMessage::kDone : RankMessage::kFailed;
  message.rank = static_cast<uint32_t>(rank);
  message.code = static_cast<int32_t>(status.code());
  std::strncpy(message.text, status.message().c_str(), sizeof(message.text) - 1);
  return writeAll(results, &message, sizeof(message));
}

// ---- All ranks ----------------------------------------------------------------------------------

ResultCollector::ResultCollector(const RankOptions& options, int results, Report report)
    : options_(options), results_(results), done_(static_cast<size_t>(options.ranks)), report_(std::move(report)) {}

Status ResultCollector::run(const std::function<Status(const UniqueId&)>& relayId,
                            const std::function<std::string(int)>& ended) {
  base::Deadline deadline = base::Deadline::afterMs(options_.timeoutMs);
  while (std::find(done_.begin(), done_.end(), false) != done_.end()) {
    if (options_.interrupted && options_.interrupted()) return cancelled("interrupted");
    pollfd wanted{results_, POLLIN, 0};
    int ready = ::poll(&wanted, 1, 100);
    if (ready < 0 && errno != EINTR) return internalError(base::strCat("poll failed: ", std::strerror(errno)));
    if (ready <= 0) {
      for (int rank = 0; rank < options_.ranks; ++rank) {
        std::string how = done_[static_cast<size_t>(rank)] ? "" : ended(rank);
        if (how.empty()) continue;
        done_[static_cast<size_t>(rank)] = true;
        return unavailable(base::strCat("rank ", rank, " ", how));
      }
      if (deadline.expired())
        return deadlineExceeded(base::strCat("no result within ", deadline.totalMs(), " ms of the ranks", missing()));
      continue;
    }
    RankMessage message;
    HPU_RETURN_IF_ERROR(readAll(results_, &message, sizeof(message)));
    deadline = base::Deadline::afterMs(options_.timeoutMs);
    switch (message.kind) {
      case RankMessage::kId:
        HPU_RETURN_IF_ERROR(relayId(message.id));
        break;
      case RankMessage::kResult:
        add(message);
        break;
      case RankMessage::kDone:
        done_[message.rank] = true;
        break;
      case RankMessage::kFailed:
        done_[message.rank] = true;
        return Status(static_cast<StatusCode>(message.code), base::strCat("rank ", message.rank, ": ", message.text));
    }
  }
  return okStatus();
}

void ResultCollector::awaitEnds(const std::function<std::string(int)>& ended, int64_t ms) {
  for (base::Deadline patience = base::Deadline::afterMs(ms);
       !patience.expired() && std::find(done_.begin(), done_.end(), false) != done_.end();) {
    pollfd wanted{results_, POLLIN, 0};
    if (::poll(&wanted, 1, 20) > 0) {
      RankMessage message;
      if (!readAll(results_, &message, sizeof(message)).ok()) return;
      if (message.kind == RankMessage::kDone || message.kind == RankMessage::kFailed) done_[message.rank] = true;
      continue;
    }
    for (int rank = 0; rank < options_.ranks; ++rank)
      if (!done_[static_cast<size_t>(rank)] && !ended(rank).empty()) done_[static_cast<size_t>(rank)] = true;
  }
}

std::string ResultCollector::missing() const {
  std::string text;
  for (size_t rank = 0; rank < done_.size(); ++rank)
    if (!done_[rank]) text += base::strCat(" ", rank);
  return text;
}

void ResultCollector::add(const RankMessage& message) {
  Entry& entry = entries_[{message.work, message.inPlace}];
  Combined& sum = entry.combined;
  sum.work = message.work;
  sum.inPlace = message.inPlace != 0;
  sum.result.wallUs = std::max(sum.result.wallUs, message.result.wallUs);
  sum.result.deviceUs = std::max(sum.result.deviceUs, message.result.deviceUs);
  if (message.result.wrong >= 0) sum.result.wrong = std::max<int64_t>(sum.result.wrong, 0) + message.result.wrong;
  if (++entry.ranks < options_.ranks) return;
  report_(sum);
  entries_.erase({message.work, message.inPlace});
}

}  // namespace hpu::tools
