// SPDX-License-Identifier: Apache-2.0
#include "collectives/schedule/CheckValues.h"

#include <algorithm>
#include <string>

#include "base/Format.h"
#include "base/Hash.h"
#include "base/StatusMacros.h"

namespace hpu::collectives {

using base::strCat;

// --- Expressions ---

size_t Expressions::Hash::operator()(const std::vector<int32_t>& key) const {
  return base::hash64(key.data(), key.size() * sizeof(int32_t));
}

Expressions::Expressions(int32_t ranks) : ranks_(ranks), list_(ranks) {
  for (int32_t r = 0; r < ranks; ++r) {
    list_[r].set.assign((ranks + 63) / 64, 0);
    list_[r].set[r / 64] |= uint64_t{1} << (r % 64);
    list_[r].contributors = 1;
  }
}

int32_t Expressions::reduce(std::span<const int32_t> sources, bool finished, int32_t& twice) {
  key_.assign(sources.begin(), sources.end());
  key_.push_back(finished ? -1 : -2);
  auto [known, isNew] = known_.try_emplace(key_, static_cast<int32_t>(list_.size()));
  if (!isNew) return known->second;
  Expression e;
  e.finished = finished;
  e.set.assign((ranks_ + 63) / 64, 0);
  for (int32_t source : sources) {
    for (size_t w = 0; w < e.set.size(); ++w) {
      if (uint64_t both = e.set[w] & list_[source].set[w]) {
        known_.erase(known);
        twice = static_cast<int32_t>(w) * 64 + __builtin_ctzll(both);
        return -1;
      }
      e.set[w] |= list_[source].set[w];
    }
    e.contributors += list_[source].contributors;
  }
  list_.push_back(std::move(e));
  return known->second;
}

std::string Expressions::text(int32_t e) const {
  if (isLeaf(e)) return strCat("rank ", e, "'s contribution");
  std::string text = isFinished(e) ? "a finished reduction of ranks" : "a partial result of ranks";
  bool first = true;
  for (int32_t r = 0; r < ranks_; ++r) {
    if (!contains(e, r)) continue;
    text += strCat(first ? " " : ", ", r);
    first = false;
  }
  return text;
}

// --- ValueCheck ---

ValueCheck::ValueCheck(const Schedule& schedule, const Messages& messages)
    : schedule_(schedule),
      problem_(schedule.problem),
      messages_(messages),
      expressions_(schedule.problem.ranks),
      ancestry_(schedule),
      memories_(schedule.problem.ranks * 3) {
  for (int32_t r = 0; r < problem_.ranks; ++r) {
    memory(r, BufferKind::kOutput).size = outputElements(problem_, r);
    memory(r, BufferKind::kScratch).size = schedule.scratchElements;
    memory(r, BufferKind::kPartial).size = schedule.partialElements;
  }
  for (Memory& m : memories_)
    if (m.size > 0) m.segments.emplace_back();
}

size_t ValueCheck::splitAt(Memory& memory, int64_t position) {
  auto& segments = memory.segments;
  if (position >= memory.size) return segments.size();
  auto after = std::upper_bound(segments.begin(), segments.end(), position,
                                [](int64_t p, const Segment& s) { return p < s.begin; });
  size_t index = after - segments.begin();
  if (segments[index - 1].begin == position) return index - 1;
  Segment tail = segments[index - 1];  // The lists of readers share their ends.
  tail.begin = position;
  segments.insert(after, tail);
  return index;
}

void ValueCheck::addReader(int32_t& list, int32_t step) {
  if (list >= 0 && pool_[list].step == step) return;
  pool_.push_back({step, list});
  list = static_cast<int32_t>(pool_.size()) - 1;
}

bool ValueCheck::copiesOntoItself(const Step& step) const {
  if (step.kind != StepKind::kCopy || step.sources[0].buffer != BufferKind::kInput ||
      step.dst.buffer != BufferKind::kOutput)
    return false;
  std::optional<int64_t> offset = inPlaceOffset(problem_, step.rank);
  return offset && step.sources[0].offset + *offset == step.dst.offset;
}

// What a step reads and what it writes are apart, or (reductions) exactly the same.
Status ValueCheck::checkOverlap(int32_t index) const {
  const Step& step = schedule_.steps[index];
  if (step.kind != StepKind::kCopy && step.kind != StepKind::kReduce) return {};
  std::optional<int64_t> offset = inPlaceOffset(problem_, step.rank);
  for (const Range& source : step.sources) {
    int64_t begin = source.offset;
    bool inPlace = false;
    if (source.buffer == BufferKind::kInput && step.dst.buffer == BufferKind::kOutput && offset) {
      begin += *offset;
      inPlace = true;
    } else if (source.buffer != step.dst.buffer) {
      continue;
    }
    bool overlaps = begin < step.dst.offset + step.dst.count && step.dst.offset < begin + source.count;
    bool same = begin == step.dst.offset && (inPlace || step.kind == StepKind::kReduce);
    if (overlaps && !same)
      return internalError(strCat(stepText(schedule_, index), " overwrites part of its own source",
                                  inPlace ? " when the call is in place" : ""));
  }
  return {};
}

// Of reads of the input: whether they are safe when the call is in place.
Status ValueCheck::readInput(int32_t index, const Range& range) {
  const Step& step = schedule_.steps[index];
  std::optional<int64_t> offset = inPlaceOffset(problem_, step.rank);
  Memory& output = memory(step.rank, BufferKind::kOutput);
  if (!offset || copiesOntoItself(step)) return {};
  int64_t begin = std::max<int64_t>(range.offset + *offset, 0);
  int64_t end = std::min(range.offset + range.count + *offset, output.size);
  if (begin >= end) return {};
  size_t first = splitAt(output, begin), last = splitAt(output, end);
  for (size_t i = first; i < last; ++i) {
    Segment& s = output.segments[i];
    if (s.writer >= 0 && !s.ontoItself)
      return internalError(strCat(stepText(schedule_, index), " reads what, when the call is in ", "place, ",
                                  stepText(schedule_, s.writer), " overwrites, and does not come before it"));
    addReader(s.inputReaders, index);
  }
  return {};
}

Status ValueCheck::read(int32_t index, const Range& range, std::vector<Piece>& pieces) {
  const Step& step = schedule_.steps[index];
  pieces.clear();
  if (range.count == 0) return {};
  if (range.buffer == BufferKind::kInput) {
    // Inputs are numbered so that an element has the number of the output elements it goes to.
    int64_t shift = 0;
    if (problem_.collective == Collective::kAllGather || problem_.collective == Collective::kGather)
      shift = step.rank * problem_.count;
    if (problem_.collective == Collective::kAllToAll) shift = step.rank * problem_.count * problem_.ranks;
    pieces.push_back({0, range.count, range.offset + shift, Expressions::leaf(step.rank)});
    return readInput(index, range);
  }
  Memory& m = memory(step.rank, range.buffer);
  size_t first = splitAt(m, range.offset), last = splitAt(m, range.offset + range.count);
  for (size_t i = first; i < last; ++i) {
    Segment& s = m.segments[i];
    Range part{range.buffer, s.begin, m.endOf(i) - s.begin};
    if (s.writer < 0)
      return internalError(
          strCat(stepText(schedule_, index), " reads ", rangeText(part), " that nothing it waits for has written"));
    if (!ancestry_.isBefore(s.writer, index))
      return internalError(strCat(stepText(schedule_, index), " reads ", rangeText(part), " that ",
                                  stepText(schedule_, s.writer), " writes, and does not wait for it"));
    addReader(s.readers, index);
    if (range.buffer != BufferKind::kOutput && schedule_.steps[s.writer].kind == StepKind::kRecv)
      inPlaceReaders_.push_back({index, s.writer});
    pieces.push_back({s.begin - range.offset, m.endOf(i) - range.offset, s.shift + range.offset, s.expression});
  }
  return {};
}

Status ValueCheck::write(int32_t index, const Range& range, const std::vector<Piece>& pieces) {
  if (range.count == 0) return {};
  const Step& step = schedule_.steps[index];
  Memory& m = memory(step.rank, range.buffer);
  bool ontoItself = copiesOntoItself(step);
  size_t first = splitAt(m, range.offset), last = splitAt(m, range.offset + range.count);
  for (size_t i = first; i < last; ++i) {
    const Segment& s = m.segments[i];
    Range part{range.buffer, s.begin, m.endOf(i) - s.begin};
    if (s.writer >= 0 && !ancestry_.isBefore(s.writer, index))
      return internalError(strCat(stepText(schedule_, s.writer), " and ", stepText(schedule_, index), " both write ",
                                  rangeText(part), ", and neither waits for the other"));
    for (int32_t r = s.readers; r >= 0; r = pool_[r].next)
      if (pool_[r].step != index && !ancestry_.isBefore(pool_[r].step, index))
        return internalError(strCat(stepText(schedule_, index), " overwrites ", rangeText(part), " that ",
                                    stepText(schedule_, pool_[r].step), " reads, and does not wait for it"));
    if (ontoItself) continue;
    for (int32_t r = s.inputReaders; r >= 0; r = pool_[r].next)
      if (pool_[r].step != index && !ancestry_.isBefore(pool_[r].step, index))
        return internalError(strCat(stepText(schedule_, index), " overwrites, when the call is in ", "place, what ",
                                    stepText(schedule_, pool_[r].step), " reads, and does not wait for it"));
  }
  // The new values, with the input's readers kept where nothing is overwritten in place.
  std::vector<Segment> fresh;
  for (const Piece& piece : pieces) {
    Segment s;
    s.begin = range.offset + piece.begin;
    s.shift = piece.shift - range.offset;
    s.expression = piece.expression;
    s.writer = index;
    s.ontoItself = ontoItself;
    fresh.push_back(s);
  }
  if (!ontoItself) {
    auto at = m.segments.erase(m.segments.begin() + first, m.segments.begin() + last);
    m.segments.insert(at, fresh.begin(), fresh.end());
    return {};
  }
  for (size_t i = first; i < last; ++i) {  // Of an input: one piece.
    int32_t inputReaders = m.segments[i].inputReaders;
    int64_t begin = m.segments[i].begin;
    m.segments[i] = fresh[0];
    m.segments[i].begin = begin;
    m.segments[i].inputReaders = inputReaders;
  }
  return {};
}

Status ValueCheck::reduce(int32_t index, std::vector<Piece>& result) {
  const Step& step = schedule_.steps[index];
  std::vector<std::vector<Piece>> sources(step.sources.size());
  for (size_t k = 0; k < sources.size(); ++k) HPU_RETURN_IF_ERROR(read(index, step.sources[k], sources[k]));
  result.clear();
  bool finished = step.dst.buffer != BufferKind::kPartial;
  std::vector<size_t> at(sources.size(), 0);
  std::vector<int32_t> operands(sources.size());
  for (int64_t begin = 0; begin < step.dst.count;) {
    int64_t end = step.dst.count;
    for (size_t k = 0; k < sources.size(); ++k) {
      while (sources[k][at[k]].end <= begin) ++at[k];
      const Piece& piece = sources[k][at[k]];
      end = std::min(end, piece.end);
      operands[k] = piece.expression;
      if (piece.shift != sources[0][at[0]].shift)
        return internalError(strCat(stepText(schedule_, index), " combines different elements: ", "number ",
                                    begin + sources[0][at[0]].shift, " with number ", begin + piece.shift));
      if (step.sources[k].buffer == BufferKind::kPartial) continue;
      if (!expressions_.isLeaf(piece.expression))
        return internalError(strCat(stepText(schedule_, index), " reduces ", expressions_.text(piece.expression),
                                    " again; partial results belong into partial buffers"));
      if (step.sources[k].contributor != piece.expression)
        return internalError(strCat(stepText(schedule_, index), " says that its source ", k, " is rank ",
                                    step.sources[k].contributor, "'s contribution; it is rank ", piece.expression,
                                    "'s"));
    }
    int32_t twice = -1;
    int32_t expression = expressions_.reduce(operands, finished, twice);
    if (expression < 0)
      return internalError(strCat(stepText(schedule_, index), " adds rank ", twice, "'s contribution twice"));
    result.push_back({begin, end, sources[0][at[0]].shift, expression});
    begin = end;
  }
  return {};
}

Status ValueCheck::run(std::span<const int32_t> order) {
  std::vector<Piece> pieces;
  for (int32_t index : order) {
    const Step& step = schedule_.steps[index];
    HPU_RETURN_IF_ERROR(checkOverlap(index));
    switch (step.kind) {
      case StepKind::kCopy:
        HPU_RETURN_IF_ERROR(read(index, step.sources[0], pieces));
        HPU_RETURN_IF_ERROR(write(index, step.dst, pieces));
        break;
      case StepKind::kReduce:
        HPU_RETURN_IF_ERROR(reduce(index, pieces));
        HPU_RETURN_IF_ERROR(write(index, step.dst, pieces));
        break;
      case StepKind::kSend:
        HPU_RETURN_IF_ERROR(read(index, step.sources[0], pieces));
        underWay_[messages_.partner[index]] = pieces;
        break;
      case StepKind::kRecv: {
        auto message = underWay_.find(index);
        HPU_RETURN_IF_ERROR(write(index, step.dst, message->second));
        underWay_.erase(message);
        break;
      }
    }
  }
  return {};
}

// Says what is wrong with elements of an output, or nothing.
std::string ValueCheck::wrong(int32_t rank, int64_t begin, int64_t end, const Segment& segment) const {
  Range range{BufferKind::kOutput, begin, end - begin};
  if (segment.writer < 0) return strCat("rank ", rank, " never writes ", rangeText(range));
  int64_t shift = 0;  // That belongs there.
  int32_t from = problem_.root;
  switch (problem_.collective) {
    case Collective::kReduceScatter:
    case Collective::kScatter:
      shift = rank * problem_.count;
      break;
    case Collective::kAllGather:
    case Collective::kGather:
      from = static_cast<int32_t>(begin / problem_.count);
      break;
    case Collective::kAllToAll:
      from = static_cast<int32_t>(begin / problem_.count);
      // Element i of what `from` sends to `rank`, less its index here.
      shift = (int64_t{from} * problem_.ranks + rank) * problem_.count - from * problem_.count;
      break;
    default:
      break;
  }
  const bool reducing = isReducing(problem_.collective);
  const int32_t e = segment.expression;
  if (segment.shift == shift && (reducing ? expressions_.isComplete(e) && expressions_.isFinished(e) : e == from))
    return {};
  std::string place = strCat("rank ", rank, "'s ", rangeText(range));
  std::string written = strCat(", written by ", stepText(schedule_, segment.writer));
  if (segment.shift != shift)
    return strCat(place, " holds element number ", begin + segment.shift, " where number ", begin + shift, " belongs",
                  written);
  if (!reducing) return strCat(place, " holds ", expressions_.text(e), ", not rank ", from, "'s", written);
  if (expressions_.isComplete(e))
    return strCat(place, " is no finished reduction (scaled, rounded and averaged)", written);
  std::string missing;
  for (int32_t r = 0; r < problem_.ranks; ++r)
    if (!expressions_.contains(e, r)) missing += strCat(missing.empty() ? " " : ", ", r);
  return strCat(place, " lacks the contributions of ranks", missing, written);
}

Status ValueCheck::checkResults() {
  for (int32_t rank = 0; rank < problem_.ranks; ++rank) {
    const Memory& output = memory(rank, BufferKind::kOutput);
    bool byRank = problem_.collective == Collective::kAllGather || problem_.collective == Collective::kGather ||
                  problem_.collective == Collective::kAllToAll;
    for (size_t i = 0; i < output.segments.size(); ++i) {
      // In pieces of one origin.
      for (int64_t begin = output.segments[i].begin; begin < output.endOf(i);) {
        int64_t end = output.endOf(i);
        if (byRank) end = std::min(end, (begin / problem_.count + 1) * problem_.count);
        if (std::string text = wrong(rank, begin, end, output.segments[i]); !text.empty())
          return internalError(std::move(text));
        begin = end;
      }
    }
  }
  if (problem_.collective != Collective::kAllReduce) return {};
  const Memory& first = memory(0, BufferKind::kOutput);
  for (int32_t rank = 1; rank < problem_.ranks; ++rank) {
    const Memory& other = memory(rank, BufferKind::kOutput);
    for (size_t i = 0, j = 0; i < first.segments.size() && j < other.segments.size();) {
      if (first.segments[i].expression != other.segments[j].expression) {
        int64_t begin = std::max(first.segments[i].begin, other.segments[j].begin);
        int64_t end = std::min(first.endOf(i), other.endOf(j));
        return internalError(strCat("ranks 0 and ", rank, " combine the contributions to elements ", begin, " to ",
                                    end - 1, " in different ways: their results can differ in bits (",
                                    stepText(schedule_, first.segments[i].writer), "; ",
                                    stepText(schedule_, other.segments[j].writer), ")"));
      }
      int64_t iEnd = first.endOf(i), jEnd = other.endOf(j);
      if (iEnd <= jEnd) ++i;
      if (jEnd <= iEnd) ++j;
    }
  }
  return {};
}

}  // namespace hpu::collectives
