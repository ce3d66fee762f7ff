// SPDX-License-Identifier: Apache-2.0
// RankResults: one rank's run, and how the ranks' results come together in the process that prints.
// The one thing to know: all ranks write to one pipe, each message in one write, so that they do
// not mix.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hpu/collectives.h"
#include "hpu/status.h"
#include "hpu/target.h"
#include "tools/hccl-perf/RankRun.h"
#include "tools/hccl-perf/Workload.h"

namespace hpu::tools {

struct RankOptions {
  int ranks = 2;
  int nodes = 1;         ///< Of local ranks, which are divided among them in their order.
  bool threads = false;  ///< Of local ranks.
  Target target = Target::kGaudi2;
  int64_t timeoutMs = 600000;  ///< Without a result of any rank.
  std::string tunerTable;
  RunOptions run;
  std::function<bool()> interrupted;  ///< Of local ranks: whoever measures wants no more. None: never.
};

/// Of all ranks together: the slowest rank's times, the sum of the wrong elements.
struct Combined {
  size_t work = 0;
  bool inPlace = false;
  Measurement result;
  std::optional<collectives::Prediction> prediction;  ///< The communicator's, where only it knows where the ranks are.
};
using Report = std::function<void(const Combined&)>;

/// Smaller than what a pipe writes as one.
struct RankMessage {
  enum Kind : uint32_t { kId, kResult, kFailed, kDone } kind = kDone;
  uint32_t rank = 0;
  uint64_t work = 0;
  uint32_t inPlace = 0;
  int32_t code = 0;
  Measurement result;
  collectives::UniqueId id;
  char text[1600] = {};
};
static_assert(sizeof(RankMessage) <= 4096);

struct Pipe {
  int read = -1, write = -1;
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    closeRead();
    closeWrite();
  }
  Status open();
  void closeRead();
  void closeWrite();
};

Status writeAll(int fd, const void* data, size_t bytes);
Status readAll(int fd, void* data, size_t bytes);

/// Everything a rank does; its results go to the pipe `results`. `meet` gives rank 0's id, when the
/// device is there.
Status runOneRank(int rank, const std::vector<Workload>& works, const RankOptions& options, int results,
                  const std::function<StatusOr<collectives::UniqueId>()>& meet);
/// The same on a device that is open already. While ranks meet, `interrupted` is asked now and then
/// whether it is all over; none: never.
Status runOneRank(int rank, const std::vector<Workload>& works, const RankOptions& options, int results,
                  const hpu::Device& device, const collectives::UniqueId& id,
                  const std::function<Status()>& interrupted);
/// A rank's last message. Errors: nobody reads the pipe any more.
Status sendEnd(int rank, const Status& status, int results);

/// The ranks' messages until all are done or one has failed.
class ResultCollector {
 public:
  ResultCollector(const RankOptions& options, int results, Report report);
  /// `relayId` is called with rank 0's id when it sends one; `ended` says whether a rank has died
  /// without a word, and how. Errors: the first rank's that failed, with its number;
  /// kDeadlineExceeded, naming the ranks that gave nothing.
  Status run(const std::function<Status(const collectives::UniqueId&)>& relayId,
             const std::function<std::string(int)>& ended);
  /// After a failure: until all have sent their last message or ended, `ms` at most.
  void awaitEnds(const std::function<std::string(int)>& ended, int64_t ms);

 private:
  struct Entry {
    Combined combined;
    int ranks = 0;
  };
  std::string missing() const;
  void add(const RankMessage& message);

  const RankOptions& options_;
  const int results_;
  std::vector<bool> done_;  ///< Have sent their last message, or ended.
  std::map<std::pair<uint64_t, uint32_t>, Entry> entries_;
  const Report report_;
};

/// The device of the launcher's LOCAL_RANK, as programs that a launcher starts take it and so that runs are alike; any
/// free one where that is taken, not there or not told.
StatusOr<hpu::Device> openDeviceOf(const collectives::LauncherEnvironment& launch, Target target);

}  // namespace hpu::tools
