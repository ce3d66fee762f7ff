// SPDX-License-Identifier: Apache-2.0
#include "Schedules.h"

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>

namespace hpu::collectives::test {

int32_t add(Schedule& schedule, Step step) {
  schedule.steps.push_back(std::move(step));
  return static_cast<int32_t>(schedule.steps.size()) - 1;
}
Step copyStep(int32_t rank, Range source, Range dst, std::vector<int32_t> after) {
  return {StepKind::kCopy, rank, -1, dst, {source}, std::move(after)};
}
Step reduceStep(int32_t rank, std::vector<Range> sources, Range dst, std::vector<int32_t> after) {
  return {StepKind::kReduce, rank, -1, dst, std::move(sources), std::move(after)};
}
Step sendStep(int32_t rank, int32_t peer, Range source, std::vector<int32_t> after) {
  return {StepKind::kSend, rank, peer, {}, {source}, std::move(after)};
}
Step recvStep(int32_t rank, int32_t peer, Range dst, std::vector<int32_t> after) {
  return {StepKind::kRecv, rank, peer, dst, {}, std::move(after)};
}

namespace {
// Part i of n nearly equal ones.
Range part(BufferKind buffer, int64_t offset, int64_t count, int64_t i, int64_t n) {
  int64_t begin = count * i / n, end = count * (i + 1) / n;
  return {buffer, offset + begin, end - begin};
}
}  // namespace

Schedule meshAllReduce(int32_t ranks, int64_t count, int32_t slices) {
  Schedule s;
  s.problem = {Collective::kAllReduce, ranks, count};
  s.algorithm = "mesh";
  s.slices = slices;
  int64_t slot = count / ranks + 1;
  s.scratchElements = ranks * slot;
  auto piece = [&](BufferKind buffer, int32_t owner, int32_t slice) {
    Range chunk = part(buffer, 0, count, owner, ranks);
    return part(buffer, chunk.offset, chunk.count, slice, slices);
  };
  // All slices are scattered before the first result goes out: a pair's messages keep their order,
  // and so no slice waits behind another one's reduction.
  std::vector<int32_t> sent, reduced;  // By slice, rank and peer; by slice and rank.
  for (int32_t k = 0; k < slices; ++k) {
    for (int32_t r = 0; r < ranks; ++r)
      for (int32_t p = 0; p < ranks; ++p)
        sent.push_back(p == r ? -1 : add(s, sendStep(r, p, piece(BufferKind::kInput, p, k))));
    for (int32_t r = 0; r < ranks; ++r) {
      std::vector<Range> sources;
      std::vector<int32_t> received;
      Range mine = piece(BufferKind::kOutput, r, k);
      Range chunk = part(BufferKind::kOutput, 0, count, r, ranks);
      for (int32_t p = 0; p < ranks; ++p) {
        Range source{BufferKind::kScratch, p * slot + mine.offset - chunk.offset, mine.count};
        if (p == r) source = piece(BufferKind::kInput, r, k);
        if (p != r) received.push_back(add(s, recvStep(r, p, source)));
        source.contributor = p;
        sources.push_back(source);
      }
      reduced.push_back(add(s, reduceStep(r, sources, mine, received)));
    }
  }
  for (int32_t k = 0; k < slices; ++k)
    for (int32_t r = 0; r < ranks; ++r)
      for (int32_t p = 0; p < ranks; ++p) {
        if (p == r) continue;
        add(s, sendStep(r, p, piece(BufferKind::kOutput, r, k), {reduced[k * ranks + r]}));
        add(s, recvStep(r, p, piece(BufferKind::kOutput, p, k), {sent[(k * ranks + r) * ranks + p]}));
      }
  s.finish();
  return s;
}

Schedule meshAllGather(int32_t ranks, int64_t count, int32_t slices) {
  Schedule s;
  s.problem = {Collective::kAllGather, ranks, count};
  s.algorithm = "mesh";
  s.slices = slices;
  for (int32_t r = 0; r < ranks; ++r)
    add(s, copyStep(r, {BufferKind::kInput, 0, count}, {BufferKind::kOutput, r * count, count}));
  for (int32_t k = 0; k < slices; ++k)
    for (int32_t r = 0; r < ranks; ++r)
      for (int32_t p = 0; p < ranks; ++p) {
        if (p == r) continue;
        add(s, sendStep(r, p, part(BufferKind::kInput, 0, count, k, slices)));
        add(s, recvStep(r, p, part(BufferKind::kOutput, p * count, count, k, slices)));
      }
  s.finish();
  return s;
}

Schedule ringReduceScatter(int32_t ranks, int64_t count) {
  Schedule s;
  s.problem = {Collective::kReduceScatter, ranks, count};
  s.algorithm = "ring";
  s.scratchElements = 0;
  s.partialElements = 2 * ranks * count;
  // Chunk c starts at rank c + 1 and ends at rank c. Partials: what is received, what is sent.
  std::vector<int32_t> last(ranks, -1);
  for (int32_t step = 0; step < ranks; ++step)
    for (int32_t r = 0; r < ranks; ++r) {
      int32_t c = ((r - 1 - step) % ranks + ranks) % ranks;
      int32_t next = (r + 1) % ranks, previous = (r + ranks - 1) % ranks;
      Range own{BufferKind::kInput, c * count, count, r};
      Range in{BufferKind::kPartial, 2 * c * count, count};
      Range out{BufferKind::kPartial, (2 * c + 1) * count, count};
      if (step == ranks - 1) out = {BufferKind::kOutput, 0, count};
      std::vector<Range> sources{own};
      std::vector<int32_t> after;
      if (step > 0) {
        after.push_back(add(s, recvStep(r, previous, in)));
        sources.insert(sources.begin(), in);
      }
      int32_t reduced = add(s, reduceStep(r, sources, out, after));
      if (step < ranks - 1) add(s, sendStep(r, next, out, {reduced}));
    }
  s.finish();
  return s;
}

Schedule meshBarrier(int32_t ranks) {
  Schedule s;
  s.problem = {Collective::kBarrier, ranks, 0};
  s.algorithm = "mesh";
  for (int32_t r = 0; r < ranks; ++r)
    for (int32_t p = 0; p < ranks; ++p) {
      if (p == r) continue;
      add(s, sendStep(r, p, {BufferKind::kScratch, 0, 0}));
      add(s, recvStep(r, p, {BufferKind::kScratch, 0, 0}));
    }
  s.finish();
  return s;
}

namespace {

// One element: a number of its own, or where it lies at the sender.
struct Cell {
  int64_t value = 0;
  const int64_t* elsewhere = nullptr;
  int64_t get() const { return elsewhere ? *elsewhere : value; }
  const int64_t* where() const { return elsewhere ? elsewhere : &value; }
};

int64_t contribution(int32_t rank, int64_t element) {
  uint64_t x = (static_cast<uint64_t>(rank) << 40) + static_cast<uint64_t>(element) + 1;
  x *= 0x9E3779B97F4A7C15ull;
  x ^= x >> 29;
  return static_cast<int64_t>(x * 0xBF58476D1CE4E5B9ull >> 8);
}

class Machine {
 public:
  Machine(const Schedule& s, const RunOptions& o) : s_(s), o_(o), random_(o.seed) {
    const Problem& p = s.problem;
    int64_t room = p.count * p.ranks;
    for (int32_t r = 0; r < p.ranks; ++r) {
      // Input, output, scratch, partial: in place, the first two are one array.
      buffers_.emplace_back();
      buffers_.back()[0].resize(2 * room + 2);
      buffers_.back()[1].resize(s.scratchElements);
      buffers_.back()[2].resize(s.partialElements);
      for (auto& list : buffers_.back())
        for (Cell& cell : list) cell.value = static_cast<int64_t>(random_());
      for (int64_t e = 0; e < inputElements(p, r); ++e) cell(r, BufferKind::kInput, e).value = contribution(r, e);
    }
    findReaders();
  }

  std::string run() {
    const auto& steps = s_.steps;
    std::vector<int> state(steps.size(), 0);  // 1: begun (offered), 2: done.
    std::map<std::pair<int, int>, std::vector<int>> sends, receives;
    std::vector<int> partner(steps.size(), -1), number(steps.size(), 0);
    for (size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].kind == StepKind::kSend) {
        number[i] = sends[{steps[i].rank, steps[i].peer}].size();
        sends[{steps[i].rank, steps[i].peer}].push_back(i);
      }
      if (steps[i].kind == StepKind::kRecv) receives[{steps[i].peer, steps[i].rank}].push_back(i);
    }
    for (auto& [pair, list] : sends) {
      auto& other = receives[pair];
      if (other.size() != list.size()) return "unmatched";
      for (size_t k = 0; k < list.size(); ++k) partner[list[k]] = other[k], partner[other[k]] = list[k];
    }
    for (;;) {
      std::vector<int> ready;
      size_t done = 0;
      for (size_t i = 0; i < steps.size(); ++i) {
        if (state[i] == 2) {
          ++done;
          continue;
        }
        bool can = true;
        for (int32_t a : steps[i].after) can = can && state[a] == 2;
        if (steps[i].kind == StepKind::kSend) {
          if (state[i] == 1) {
            can = state[partner[i]] == 2;
            if (o_.zeroCopy)
              for (int32_t reader : readers_[partner[i]]) can = can && state[reader] == 2;
          } else if (number[i] > 0) {
            can = can && state[sends[{steps[i].rank, steps[i].peer}][number[i] - 1]] == 2;
          }
        }
        if (steps[i].kind == StepKind::kRecv) can = can && state[partner[i]] >= 1;
        if (can) ready.push_back(i);
      }
      if (done == steps.size()) return result();
      if (ready.empty()) return "deadlock";
      int i = ready[random_() % ready.size()];
      if (steps[i].kind == StepKind::kSend) {
        ++state[i];
        continue;
      }
      execute(i, partner[i]);
      state[i] = 2;
    }
  }

 private:
  Cell& cell(int32_t rank, BufferKind kind, int64_t index) {
    int64_t room = s_.problem.count * s_.problem.ranks;
    auto& lists = buffers_[rank];
    if (kind == BufferKind::kScratch) return lists[1][index];
    if (kind == BufferKind::kPartial) return lists[2][index];
    std::optional<int64_t> offset = inPlaceOffset(s_.problem, rank);
    if (!o_.inPlace || !offset) return lists[0][kind == BufferKind::kInput ? index : room + 1 + index];
    // One array with room for the larger one.
    if (kind == BufferKind::kInput) return lists[0][index + std::max<int64_t>(*offset, 0)];
    return lists[0][index + std::max<int64_t>(-*offset, 0)];
  }

  void findReaders() {
    readers_.resize(s_.steps.size());
    std::map<std::tuple<int32_t, int, int64_t>, int32_t> writer;
    for (size_t i = 0; i < s_.steps.size(); ++i) {
      const Step& step = s_.steps[i];
      for (const Range& source : step.sources)
        for (int64_t e = source.offset; e < source.offset + source.count; ++e) {
          auto w = writer.find({step.rank, static_cast<int>(source.buffer), e});
          if (w == writer.end()) continue;
          const Step& from = s_.steps[w->second];
          if (from.kind == StepKind::kRecv && isOwn(from.dst.buffer)) readers_[w->second].insert(i);
        }
      if (step.kind == StepKind::kSend) continue;
      for (int64_t e = step.dst.offset; e < step.dst.offset + step.dst.count; ++e)
        writer[{step.rank, static_cast<int>(step.dst.buffer), e}] = i;
    }
  }
  static bool isOwn(BufferKind b) { return b == BufferKind::kScratch || b == BufferKind::kPartial; }

  void execute(int32_t i, int32_t partner) {
    const Step& step = s_.steps[i];
    std::vector<int64_t> values(step.dst.count, 0);
    for (int64_t e = 0; e < step.dst.count; ++e) {
      if (step.kind == StepKind::kRecv) {
        const Step& send = s_.steps[partner];
        Cell& from = cell(send.rank, send.sources[0].buffer, send.sources[0].offset + e);
        if (o_.zeroCopy && isOwn(step.dst.buffer)) {
          Cell& to = cell(step.rank, step.dst.buffer, step.dst.offset + e);
          to.elsewhere = from.where();
        }
        values[e] = from.get();
      } else {
        for (const Range& source : step.sources) values[e] += cell(step.rank, source.buffer, source.offset + e).get();
      }
    }
    if (step.kind == StepKind::kRecv && o_.zeroCopy && isOwn(step.dst.buffer)) return;
    for (int64_t e = 0; e < step.dst.count; ++e) {
      Cell& to = cell(step.rank, step.dst.buffer, step.dst.offset + e);
      to.elsewhere = nullptr;
      to.value = values[e];
    }
  }

  std::string result() {
    const Problem& p = s_.problem;
    for (int32_t r = 0; r < p.ranks; ++r)
      for (int64_t e = 0; e < outputElements(p, r); ++e) {
        int64_t expected = 0;
        switch (p.collective) {
          case Collective::kAllReduce:
          case Collective::kReduce:
            for (int32_t q = 0; q < p.ranks; ++q) expected += contribution(q, e);
            break;
          case Collective::kReduceScatter:
            for (int32_t q = 0; q < p.ranks; ++q) expected += contribution(q, r * p.count + e);
            break;
          case Collective::kAllGather:
          case Collective::kGather:
            expected = contribution(static_cast<int32_t>(e / p.count), e % p.count);
            break;
          case Collective::kAllToAll:
            expected = contribution(static_cast<int32_t>(e / p.count), r * p.count + e % p.count);
            break;
          case Collective::kScatter:
            expected = contribution(p.root, r * p.count + e);
            break;
          default:
            expected = contribution(p.root, e);
            break;
        }
        if (cell(r, BufferKind::kOutput, e).get() != expected)
          return "rank " + std::to_string(r) + " element " + std::to_string(e);
      }
    return {};
  }

  const Schedule& s_;
  const RunOptions o_;
  std::mt19937_64 random_;
  std::vector<std::array<std::vector<Cell>, 3>> buffers_;
  std::vector<std::set<int32_t>> readers_;
};

}  // namespace

std::string runSchedule(const Schedule& schedule, const RunOptions& options) {
  return Machine(schedule, options).run();
}

}  // namespace hpu::collectives::test
