// SPDX-License-Identifier: Apache-2.0
#include "collectives/executor/Lowering.h"

#include <algorithm>
#include <map>

namespace hpu::collectives {
namespace {

/// Which step wrote what last, of one buffer: pieces [begin, end) by begin.
class LastWriters {
 public:
  void write(int64_t begin, int64_t end, int32_t writer) {
    if (begin >= end) return;
    split(begin);
    split(end);
    pieces_.erase(pieces_.lower_bound(begin), pieces_.lower_bound(end));
    pieces_[begin] = {end, writer};
  }
  /// Calls f(writer) for each writer of a part of the range.
  template <typename F>
  void forWriters(int64_t begin, int64_t end, F&& f) const {
    auto it = pieces_.upper_bound(begin);
    if (it != pieces_.begin() && std::prev(it)->second.end > begin) --it;
    for (; it != pieces_.end() && it->first < end; ++it) f(it->second.writer);
  }

 private:
  struct Piece {
    int64_t end;
    int32_t writer;
  };
  void split(int64_t at) {
    auto it = pieces_.lower_bound(at);
    if (it == pieces_.begin()) return;
    --it;
    if (it->second.end <= at) return;
    pieces_[at] = it->second;
    it->second.end = at;
  }
  std::map<int64_t, Piece> pieces_;
};

class Lowering {
 public:
  Lowering(std::shared_ptr<const Schedule> schedule, int rank, int64_t smallBytes)
      : schedule_(*schedule), smallBytes_(smallBytes), plan_(std::make_shared<RankPlan>()) {
    plan_->schedule = std::move(schedule);
    plan_->rank = rank;
    plan_->sends.resize(static_cast<size_t>(schedule_.problem.ranks));
    plan_->receives.resize(static_cast<size_t>(schedule_.problem.ranks));
    local_.assign(schedule_.steps.size(), -1);
    for (int32_t index : schedule_.ofRank[static_cast<size_t>(rank)]) addStep(index);
  }

  std::shared_ptr<const RankPlan> run() {
    chooseAliases();
    nameAliases();
    markReread();
    connect();
    return plan_;
  }

 private:
  const Step& source(size_t local) const { return schedule_.steps[static_cast<size_t>(of_[local])]; }

  void addStep(int32_t index) {
    const Step& step = schedule_.steps[static_cast<size_t>(index)];
    const auto local = static_cast<int32_t>(plan_->steps.size());
    local_[static_cast<size_t>(index)] = local;
    of_.push_back(index);
    PlanStep& planned = plan_->steps.emplace_back();
    planned.kind = step.kind;
    planned.peer = step.peer;
    const bool send = step.kind == StepKind::kSend;
    planned.count = send ? step.sources[0].count : step.dst.count;
    planned.dst = {step.dst.buffer, -1, -1, step.dst.offset};
    planned.firstSource = static_cast<uint32_t>(plan_->sources.size());
    if (step.kind != StepKind::kRecv) {
      planned.numSources = static_cast<uint32_t>(step.sources.size());
      for (const Range& range : step.sources) {
        plan_->sources.push_back({range.buffer, -1, range.contributor, range.offset});
      }
    }
    if (send) plan_->sends[static_cast<size_t>(step.peer)].push_back(local);
    if (step.kind == StepKind::kRecv) {
      plan_->receives[static_cast<size_t>(step.peer)].push_back(local);
    }
  }

  bool isStaging(BufferKind buffer) const { return buffer == BufferKind::kScratch || buffer == BufferKind::kPartial; }
  int64_t bytesOf(const Range& range) const {
    const bool partial = range.buffer == BufferKind::kPartial;
    return range.count * (partial ? schedule_.problem.partialBytes : schedule_.problem.elementBytes);
  }

  /// A receive into scratch or partial memory is an alias unless a reader needs the bytes there.
  void chooseAliases() {
    LastWriters writers[2];
    sourceWriter_.assign(plan_->sources.size(), -1);
    auto& steps = plan_->steps;
    for (size_t i = 0; i < steps.size(); ++i) {
      const Step& step = source(i);
      if (step.kind == StepKind::kRecv) steps[i].alias = isStaging(step.dst.buffer);
      for (uint32_t k = 0; k < steps[i].numSources; ++k) readRange(i, k, writers);
      if (step.kind != StepKind::kSend && isStaging(step.dst.buffer)) {
        writers[step.dst.buffer == BufferKind::kPartial].write(step.dst.offset, step.dst.offset + step.dst.count,
                                                               static_cast<int32_t>(i));
      }
    }
  }

  void readRange(size_t i, uint32_t k, const LastWriters* writers) {
    const Step& step = source(i);
    const Range& range = step.sources[k];
    if (!isStaging(range.buffer) || range.count == 0) return;
    int32_t only = -1;
    int found = 0;
    const auto& lookIn = writers[range.buffer == BufferKind::kPartial];
    auto forWriters = [&](auto&& f) { lookIn.forWriters(range.offset, range.offset + range.count, f); };
    forWriters([&](int32_t writer) {
      only = writer;
      ++found;
    });
    // Sends need device memory, unless they are small and copied.
    const bool inPlace = found == 1 && (step.kind != StepKind::kSend || bytesOf(range) <= smallBytes_);
    if (inPlace) {
      sourceWriter_[plan_->steps[i].firstSource + k] = only;
    } else {
      forWriters([&](int32_t writer) { plan_->steps[static_cast<size_t>(writer)].alias = false; });
    }
  }

  void nameAliases() {
    for (size_t k = 0; k < plan_->sources.size(); ++k) {
      if (sourceWriter_[k] < 0) continue;
      PlanStep& writer = plan_->steps[static_cast<size_t>(sourceWriter_[k])];
      if (!writer.alias) continue;
      plan_->sources[k].alias = sourceWriter_[k];
      plan_->sources[k].offset -= writer.dst.offset;
      ++writer.readers;
    }
  }

  void markReread() {
    std::vector<std::pair<int64_t, int64_t>> reads;
    for (size_t i = 0; i < plan_->steps.size(); ++i) {
      for (uint32_t k = 0; k < plan_->steps[i].numSources; ++k) {
        const Range& range = source(i).sources[k];
        if (range.buffer == BufferKind::kOutput && range.count > 0) {
          reads.emplace_back(range.offset, range.offset + range.count);
        }
      }
    }
    std::sort(reads.begin(), reads.end());
    std::vector<std::pair<int64_t, int64_t>> merged;
    for (auto [begin, end] : reads) {
      if (!merged.empty() && begin <= merged.back().second) {
        merged.back().second = std::max(merged.back().second, end);
      } else {
        merged.emplace_back(begin, end);
      }
    }
    for (PlanStep& step : plan_->steps) {
      if (step.kind == StepKind::kSend || step.dst.buffer != BufferKind::kOutput) continue;
      auto it =
          std::lower_bound(merged.begin(), merged.end(), step.dst.offset,
                           [](const std::pair<int64_t, int64_t>& piece, int64_t at) { return piece.second <= at; });
      step.reread = it != merged.end() && it->first < step.dst.offset + step.count;
    }
  }

  void connect() {
    auto& steps = plan_->steps;
    for (size_t i = 0; i < steps.size(); ++i) {
      steps[i].waits = static_cast<int32_t>(source(i).after.size());
      for (int32_t before : source(i).after) ++steps[localOf(before)].numNext;
    }
    uint32_t first = 0;
    for (PlanStep& step : steps) {
      step.firstNext = first;
      first += step.numNext;
    }
    plan_->next.resize(first);
    std::vector<uint32_t> at(steps.size());
    for (size_t i = 0; i < steps.size(); ++i) at[i] = steps[i].firstNext;
    for (size_t i = 0; i < steps.size(); ++i) {
      for (int32_t before : source(i).after) {
        plan_->next[at[localOf(before)]++] = static_cast<int32_t>(i);
      }
    }
  }
  size_t localOf(int32_t index) const { return static_cast<size_t>(local_[static_cast<size_t>(index)]); }

  const Schedule& schedule_;
  const int64_t smallBytes_;
  const std::shared_ptr<RankPlan> plan_;
  std::vector<int32_t> local_, of_;    // RankPlan's step by schedule's, and back.
  std::vector<int32_t> sourceWriter_;  // By source: the one step that wrote all of it, or -1.
};

}  // namespace

std::shared_ptr<const RankPlan> lowerSchedule(std::shared_ptr<const Schedule> schedule, int rank, int64_t smallBytes) {
  return Lowering(std::move(schedule), rank, smallBytes).run();
}

}  // namespace hpu::collectives
