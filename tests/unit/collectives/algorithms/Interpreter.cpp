// SPDX-License-Identifier: Apache-2.0
#include "Interpreter.h"

#include <map>
#include <random>
#include <utility>
#include <vector>

namespace hpu::collectives {
namespace {

uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x7f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

enum class Form : uint8_t { kNothing, kRaw, kPartial, kFinal };

/// One element: the sum itself, and a number that differs when the order of additions does.
struct Cell {
  Form form = Form::kNothing;
  int32_t origin = -1;  // Of a raw one.
  uint64_t sum = 0, order = 0;
};

class Interpreter {
 public:
  Interpreter(const Schedule& schedule, const Interleaving& how)
      : s_(schedule), p_(schedule.problem), how_(how), random_(how.seed) {}

  std::string run() {
    prepare();
    if (error_.empty()) findReaders();
    if (error_.empty()) execute();
    if (error_.empty()) compare();
    return error_;
  }

 private:
  struct Rank {
    std::vector<Cell> buffers[4];
    int64_t inputBase = 0, outputBase = 0;
    bool inPlace = false;
  };
  struct State {
    int waits = 0;
    std::vector<int32_t> next;  // Steps that have this one in `after`.
    int32_t partner = -1, previous = -1, following = -1;
    bool queued = false, began = false, done = false;
    bool mayAlias = false, alias = false;  // Of a receive.
    int readers = 0;                       // Of a receive: steps that read it in place.
    std::vector<int32_t> reads;            // Of a step: receives that each source comes from, or -1.
    std::vector<Cell> snapshot;            // Of a send that was copied.
    bool copied = false;
  };

  const Schedule& s_;
  const Problem& p_;
  const Interleaving& how_;
  std::mt19937_64 random_;
  std::vector<Rank> ranks_;
  std::vector<State> states_;
  std::vector<int32_t> ready_;
  std::string error_;

  void fail(const std::string& what) {
    if (error_.empty()) error_ = what;
  }
  uint64_t inputValue(int rank, int64_t element) const {
    return mix(static_cast<uint64_t>(rank) + 1, static_cast<uint64_t>(element) + 1);
  }

  void prepare() {
    ranks_.resize(static_cast<size_t>(p_.ranks));
    for (int r = 0; r < p_.ranks; r++) {
      Rank& rank = ranks_[static_cast<size_t>(r)];
      const int64_t in = inputElements(p_, r), out = outputElements(p_, r);
      const auto offset = inPlaceOffset(p_, r);
      rank.inPlace = offset && (how_.mixed ? random_() % 2 == 0 : how_.inPlace);
      if (rank.inPlace) {
        rank.inputBase = std::max<int64_t>(*offset, 0);
        rank.outputBase = std::max<int64_t>(-*offset, 0);
      }
      rank.buffers[1].resize(
          static_cast<size_t>(std::max(rank.outputBase + out, rank.inPlace ? rank.inputBase + in : 0)));
      if (!rank.inPlace) rank.buffers[0].resize(static_cast<size_t>(in));
      rank.buffers[2].resize(static_cast<size_t>(s_.scratchElements));
      rank.buffers[3].resize(static_cast<size_t>(s_.partialElements));
      for (int64_t e = 0; e < in; e++) {
        const uint64_t value = inputValue(r, e);
        *cell(r, {BufferKind::kInput, e, 1, -1}, 0) = {Form::kRaw, r, value, value};
      }
    }
    states_.resize(s_.steps.size());
    std::map<std::pair<int, int>, std::vector<int32_t>> sends, receives;
    for (size_t i = 0; i < s_.steps.size(); i++) {
      const Step& step = s_.steps[i];
      states_[i].waits = static_cast<int>(step.after.size());
      for (const int32_t a : step.after) states_[static_cast<size_t>(a)].next.push_back(id(i));
      if (step.kind == StepKind::kSend) sends[{step.rank, step.peer}].push_back(id(i));
      if (step.kind == StepKind::kRecv) receives[{step.peer, step.rank}].push_back(id(i));
    }
    for (auto* side : {&sends, &receives})
      for (auto& [pair, list] : *side)
        for (size_t k = 1; k < list.size(); k++) {
          state(list[k]).previous = list[k - 1];
          state(list[k - 1]).following = list[k];
        }
    for (auto& [pair, list] : sends) {
      const auto& others = receives[pair];
      if (others.size() != list.size()) return fail("sends without receives");
      for (size_t k = 0; k < list.size(); k++) {
        state(list[k]).partner = others[k];
        state(others[k]).partner = list[k];
      }
    }
  }

  static int32_t id(size_t i) { return static_cast<int32_t>(i); }
  State& state(int32_t i) { return states_[static_cast<size_t>(i)]; }
  const Step& step(int32_t i) const { return s_.steps[static_cast<size_t>(i)]; }

  Cell* cell(int r, const Range& range, int64_t i) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    int64_t at = range.offset + i;
    auto kind = static_cast<size_t>(range.buffer);
    if (range.buffer == BufferKind::kInput && rank.inPlace) kind = 1;
    if (range.buffer == BufferKind::kInput) at += rank.inputBase;
    if (range.buffer == BufferKind::kOutput) at += rank.outputBase;
    if (at < 0 || at >= static_cast<int64_t>(rank.buffers[kind].size())) {
      fail("outside of a buffer");
      static Cell nowhere;
      return &nowhere;
    }
    return &rank.buffers[kind][static_cast<size_t>(at)];
  }

  /// Which receives can be read in place: those whose every reader reads from that one alone.
  void findReaders() {
    for (int r = 0; r < p_.ranks; r++) {
      std::map<int, std::vector<int32_t>> lastWriter;
      lastWriter[2].assign(ranks_[static_cast<size_t>(r)].buffers[2].size(), -1);
      lastWriter[3].assign(ranks_[static_cast<size_t>(r)].buffers[3].size(), -1);
      auto own = [](const Range& range) { return range.buffer >= BufferKind::kScratch; };
      for (const int32_t i : s_.ofRank[static_cast<size_t>(r)]) {
        for (const Range& source : step(i).sources) {
          int32_t from = -1;
          for (int64_t e = 0; own(source) && e < source.count; e++) {
            const int32_t w = lastWriter[static_cast<int>(source.buffer)][static_cast<size_t>(source.offset + e)];
            if (e > 0 && w != from) {
              for (const int32_t both : {w, from})
                if (both >= 0) state(both).mayAlias = false;
            }
            from = w;
          }
          state(i).reads.push_back(from >= 0 && state(from).mayAlias ? from : -1);
          if (from >= 0) state(from).readers++;
        }
        if (step(i).kind == StepKind::kSend || !own(step(i).dst)) continue;
        state(i).mayAlias = step(i).kind == StepKind::kRecv;
        for (int64_t e = 0; e < step(i).dst.count; e++)
          lastWriter[static_cast<int>(step(i).dst.buffer)][static_cast<size_t>(step(i).dst.offset + e)] = i;
      }
    }
    for (State& st : states_)
      st.alias = st.mayAlias && st.readers > 0 && static_cast<int>(random_() % 10) < how_.readInPlace;
  }

  /// Element i of a source of a step, where it really lies now.
  const Cell& read(int32_t of, size_t source, int64_t i) {
    const Range& range = step(of).sources[source];
    const int32_t receive = state(of).reads[source];
    if (receive >= 0 && state(receive).alias) return readMessage(receive, range.offset - step(receive).dst.offset + i);
    return *cell(step(of).rank, range, i);
  }
  const Cell& readMessage(int32_t receive, int64_t i) {
    State& send = state(state(receive).partner);
    if (send.copied) return send.snapshot[static_cast<size_t>(i)];
    return read(state(receive).partner, 0, i);
  }

  /// Puts a step that can go on into the list.
  void consider(int32_t i) {
    State& st = state(i);
    if (st.queued || st.waits > 0) return;
    if (step(i).kind == StepKind::kSend && st.previous >= 0 &&
        !(how_.strict ? state(st.previous).done : state(st.previous).began))
      return;
    if (step(i).kind == StepKind::kRecv && !state(st.partner).began) return;
    st.queued = true;
    ready_.push_back(i);
  }

  void finish(int32_t i) {
    State& st = state(i);
    if (std::exchange(st.done, true)) return;
    for (const int32_t next : st.next) {
      state(next).waits--;
      consider(next);
    }
    if (st.following >= 0) consider(st.following);
    for (const int32_t receive : st.reads)
      if (receive >= 0 && --state(receive).readers == 0 && state(receive).alias && state(receive).done)
        finish(state(receive).partner);
  }

  void execute() {
    for (size_t i = 0; i < states_.size(); i++) consider(id(i));
    size_t began = 0;
    while (!ready_.empty() && error_.empty()) {
      const size_t pick = random_() % ready_.size();
      const int32_t i = std::exchange(ready_[pick], ready_.back());
      ready_.pop_back();
      begin(i);
      began++;
    }
    if (began != states_.size()) return fail("deadlock");
    for (const State& st : states_)
      if (!st.done) fail("a send that is never done");
  }

  void begin(int32_t i) {
    const Step& st = step(i);
    state(i).began = true;
    switch (st.kind) {
      case StepKind::kSend:
        if (static_cast<int>(random_() % 10) < how_.copied) {
          state(i).copied = true;
          for (int64_t e = 0; e < st.sources[0].count; e++) state(i).snapshot.push_back(read(i, 0, e));
          finish(i);
        }
        consider(state(i).partner);
        if (state(i).following >= 0) consider(state(i).following);
        return;
      case StepKind::kRecv:
        if (state(i).alias) return finish(i);
        checkForms(i);
        for (int64_t e = 0; e < st.dst.count; e++) *cell(st.rank, st.dst, e) = readMessage(i, e);
        finish(i);
        return finish(state(i).partner);
      case StepKind::kCopy:
        for (int64_t e = 0; e < st.dst.count; e++) *cell(st.rank, st.dst, e) = read(i, 0, e);
        return finish(i);
      case StepKind::kReduce:
        reduce(i);
        return finish(i);
    }
  }

  void checkForms(int32_t receive) {
    const Range& source = step(state(receive).partner).sources[0];
    const Range& dst = step(receive).dst;
    if (source.count != dst.count) fail("a message's ends differ in size");
    if ((source.buffer == BufferKind::kPartial) != (dst.buffer == BufferKind::kPartial))
      fail("a message's ends differ in form");
  }

  void reduce(int32_t i) {
    const Step& st = step(i);
    const bool partial = st.dst.buffer == BufferKind::kPartial;
    for (int64_t e = 0; e < st.dst.count; e++) {
      Cell result{partial ? Form::kPartial : Form::kFinal, -1, 0, 0};
      for (size_t k = 0; k < st.sources.size(); k++) {
        const Cell& from = read(i, k, e);
        const bool asPartial = st.sources[k].buffer == BufferKind::kPartial;
        if (from.form != (asPartial ? Form::kPartial : Form::kRaw)) fail("reduces the wrong form");
        if (!asPartial && from.origin != st.sources[k].contributor) fail("names the wrong rank");
        result.sum += from.sum;
        result.order = k == 0 ? from.order : mix(result.order, from.order);
      }
      *cell(st.rank, st.dst, e) = result;
    }
  }

  void compare() {
    for (int r = 0; r < p_.ranks; r++)
      for (int64_t e = 0; e < outputElements(p_, r); e++) {
        const Cell got = *cell(r, {BufferKind::kOutput, e, 1, -1}, 0);
        if (isReducing(p_.collective)) {
          const int64_t at = p_.collective == Collective::kReduceScatter ? r * p_.count + e : e;
          uint64_t sum = 0;
          for (int from = 0; from < p_.ranks; from++) sum += inputValue(from, at);
          if (got.form != Form::kFinal || got.sum != sum) fail("wrong sum");
          if (p_.collective == Collective::kAllReduce &&
              got.order != cell(0, {BufferKind::kOutput, e, 1, -1}, 0)->order)
            fail("ranks have different bits");
          continue;
        }
        int from = p_.root;
        int64_t at = e;
        if (p_.collective == Collective::kAllGather || p_.collective == Collective::kGather ||
            p_.collective == Collective::kAllToAll) {
          from = static_cast<int>(e / p_.count);
          at = e % p_.count + (p_.collective == Collective::kAllToAll ? r * p_.count : 0);
        }
        if (p_.collective == Collective::kScatter) at += r * p_.count;
        if (got.form != Form::kRaw || got.sum != inputValue(from, at)) fail("wrong element");
      }
  }
};

}  // namespace

std::string interpret(const Schedule& schedule, const Interleaving& how) {
  return Interpreter(schedule, how).run();
}

}  // namespace hpu::collectives
