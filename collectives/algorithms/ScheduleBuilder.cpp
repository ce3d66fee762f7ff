// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/ScheduleBuilder.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace hpu::collectives {

AccessMap::Segments::iterator AccessMap::splitAt(int64_t where) {
  const auto next = segments_.lower_bound(where);
  if (next == segments_.begin() || (next != segments_.end() && next->first == where)) return next;
  Segment& before = std::prev(next)->second;
  if (before.end <= where) return next;
  const Segment right = before;
  before.end = where;
  return segments_.emplace_hint(next, where, right);
}

void AccessMap::read(int64_t begin, int64_t end, int32_t step, std::vector<int32_t>& after) {
  if (begin >= end) return;
  auto at = splitAt(begin);
  for (int64_t from = begin; from < end; ++at) {
    if (at == segments_.end() || at->first > from)
      at = segments_.emplace_hint(at, from, Segment{at == segments_.end() ? end : std::min(end, at->first)});
    if (at->second.end > end) at = std::prev(splitAt(end));
    Segment& segment = at->second;
    if (segment.writer != kNone) after.push_back(segment.writer);
    readers_.push_back({step, segment.readers});
    segment.readers = static_cast<int32_t>(readers_.size()) - 1;
    from = segment.end;
  }
}

void AccessMap::write(int64_t begin, int64_t end, int32_t step, std::vector<int32_t>& after) {
  if (begin >= end) return;
  auto at = splitAt(begin);
  const auto first = at;
  for (; at != segments_.end() && at->first < end; ++at) {
    if (at->second.end > end) at = std::prev(splitAt(end));
    // Readers are after the writer already.
    const Segment& segment = at->second;
    if (segment.readers == kNone && segment.writer != kNone) after.push_back(segment.writer);
    for (int32_t reader = segment.readers; reader != kNone; reader = readers_[static_cast<size_t>(reader)].next)
      after.push_back(readers_[static_cast<size_t>(reader)].step);
  }
  // The segment that begins where the range does becomes the range.
  if (first == at || first->first != begin) {
    segments_.erase(first, at);
    segments_.emplace_hint(at, begin, Segment{end, step, kNone});
  } else {
    first->second = {end, step, kNone};
    segments_.erase(std::next(first), at);
  }
}

ScheduleBuilder::ScheduleBuilder(const Problem& problem, std::string_view algorithm, int32_t slices)
    : accesses_(static_cast<size_t>(problem.ranks) * kSpaces) {
  schedule_.problem = problem;
  schedule_.algorithm = algorithm;
  schedule_.slices = usefulSlices(problem.count, slices);
}

bool ScheduleBuilder::trivial() {
  const Problem& problem = schedule_.problem;
  const Span all{0, problem.count};
  const bool alone = problem.ranks == 1;
  if (problem.collective == Collective::kBarrier) return alone;
  if (problem.count == 0) return true;
  if (problem.collective == Collective::kPointToPoint) {
    if (problem.root != problem.destination) return false;
    copy(problem.root, output(all), input(all));
    return true;
  }
  if (!alone) return false;
  switch (problem.collective) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
    case Collective::kReduce:
      reduce(0, output(all), {contribution(all, 0)});  // Not a copy: contributions may be scaled.
      break;
    default:
      copy(0, output(all), input(all));
  }
  return true;
}

Range ScheduleBuilder::allocate(BufferKind buffer, int64_t elements) {
  int64_t& used = buffer == BufferKind::kPartial ? schedule_.partialElements : schedule_.scratchElements;
  const Range range{buffer, used, elements, -1};
  used += (elements + 63) / 64 * 64;
  return range;
}

void ScheduleBuilder::copy(int rank, const Range& dst, const Range& source) {
  if (dst.count == 0) return;
  Step step;
  step.kind = StepKind::kCopy;
  step.rank = rank;
  step.dst = dst;
  step.sources = {source};
  add(std::move(step));
}

void ScheduleBuilder::reduce(int rank, const Range& dst, const std::vector<Range>& sources) {
  if (dst.count == 0) return;
  Step step;
  step.kind = StepKind::kReduce;
  step.rank = rank;
  step.dst = dst;
  step.sources = sources;
  add(std::move(step));
}

void ScheduleBuilder::move(int from, const Range& source, int to, const Range& dst) {
  if (from == to) return copy(from, dst, source);
  if (dst.count == 0) return;
  Step send;
  send.kind = StepKind::kSend;
  send.rank = from;
  send.peer = to;
  send.sources = {source};
  add(std::move(send));
  Step receive;
  receive.kind = StepKind::kRecv;
  receive.rank = to;
  receive.peer = from;
  receive.dst = dst;
  add(std::move(receive));
}

int32_t ScheduleBuilder::signal(int from, int to, const std::vector<int32_t>& after) {
  Step send;
  send.kind = StepKind::kSend;
  send.rank = from;
  send.peer = to;
  send.sources = {Range{BufferKind::kScratch, 0, 0, -1}};
  send.after = after;
  schedule_.steps.push_back(std::move(send));
  Step receive;
  receive.kind = StepKind::kRecv;
  receive.rank = to;
  receive.peer = from;
  receive.dst = Range{BufferKind::kScratch, 0, 0, -1};
  schedule_.steps.push_back(std::move(receive));
  return static_cast<int32_t>(schedule_.steps.size()) - 1;
}

int32_t ScheduleBuilder::add(Step step) {
  const auto index = static_cast<int32_t>(schedule_.steps.size());
  if (step.kind != StepKind::kReduce) {
    step.dst.contributor = -1;
    for (Range& source : step.sources) source.contributor = -1;
  }
  order(step, index);
  schedule_.steps.push_back(std::move(step));
  return index;
}

bool ScheduleBuilder::inPlace(int rank, const Range& range, int64_t& begin) const {
  if (range.buffer != BufferKind::kInput && range.buffer != BufferKind::kOutput) return false;
  const std::optional<int64_t> input = inPlaceOffset(schedule_.problem, rank);
  begin = range.offset + (range.buffer == BufferKind::kInput ? input.value_or(0) : 0);
  return input.has_value();
}

void ScheduleBuilder::order(Step& step, int32_t index) {
  const auto base = static_cast<size_t>(step.rank) * kSpaces;
  const bool writes = step.kind != StepKind::kSend;
  // A copy onto itself is not run.
  int64_t from = 0, to = 0;
  const bool nothingInPlace = step.kind == StepKind::kCopy && inPlace(step.rank, step.sources.front(), from) &&
                              inPlace(step.rank, step.dst, to) && from == to;
  auto access = [&](const Range& range, auto how) {
    AccessMap& own = accesses_[base + static_cast<size_t>(range.buffer)];
    (own.*how)(range.offset, range.offset + range.count, index, step.after);
    int64_t begin = 0;
    if (nothingInPlace || !inPlace(step.rank, range, begin)) return;
    (accesses_[base + kInPlace].*how)(begin, begin + range.count, index, step.after);
  };
  for (const Range& source : step.sources) access(source, &AccessMap::read);
  if (writes) access(step.dst, &AccessMap::write);
  std::sort(step.after.begin(), step.after.end());
  step.after.erase(std::unique(step.after.begin(), step.after.end()), step.after.end());
  if (!step.after.empty() && step.after.back() == index) step.after.pop_back();
}

Schedule ScheduleBuilder::finish() {
  schedule_.finish();
  return std::move(schedule_);
}

}  // namespace hpu::collectives
