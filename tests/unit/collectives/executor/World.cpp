// SPDX-License-Identifier: Apache-2.0
#include "World.h"

#include <gtest/gtest.h>

#include <cstring>

#include "../reduction/ReductionOracle.h"
#include "base/Format.h"
#include "collectives/algorithms/Registry.h"
#include "collectives/schedule/Check.h"

namespace hpu::collectives::testing {

using base::strCat;

OperationResult Outcome::wait() const {
  std::unique_lock lock(state_->mutex);
  if (!state_->changed.wait_for(lock, std::chrono::seconds(30), [&] { return state_->times > 0; })) {
    OperationResult result;
    result.status = Status(StatusCode::kUnknown, "the operation has not ended");
    return result;
  }
  return state_->result;
}

World::World(int ranks, LocalOptions options, size_t bytes) : ranks_(static_cast<size_t>(ranks)) {
  std::vector<LocalMemory> memories;
  for (int i = 0; i < ranks; ++i) {
    WorldRank& rank = ranks_[static_cast<size_t>(i)];
    rank.memory.resize(bytes);
    rank.base = 0x10000000 * static_cast<uint64_t>(i + 1);
    memories.push_back({rank.memory.data(), rank.base, static_cast<int64_t>(bytes)});
  }
  group_ = LocalGroup::create(std::move(memories), options);
  for (int i = 0; i < ranks; ++i) {
    WorldRank& rank = ranks_[static_cast<size_t>(i)];
    rank.transport = group_->transport(i);
    rank.executor = Executor::create(rank.transport, strCat("comm rank ", i));
  }
}

std::string callText(const Call& call) {
  return strCat(collectiveName(call.collective), " ", call.algorithm, "/", call.slices, " of ", call.count, " ",
                elementTypeName(call.type), " op ", static_cast<int>(call.op), call.inPlace ? " in place" : "",
                " root ", call.root);
}

Problem World::problem(const Call& call) const {
  Problem problem;
  problem.collective = call.collective;
  problem.ranks = size();
  problem.count = call.count;
  problem.root = call.root;
  problem.destination = call.destination;
  problem.elementBytes = static_cast<int32_t>(elementSize(call.type));
  problem.partialBytes = static_cast<int32_t>(elementSize(accumulatorType(call.type)));
  return problem;
}

std::shared_ptr<const Schedule> World::schedule(const Call& call) {
  const Problem wanted = problem(call);
  for (auto& [known, schedule] : schedules_) {
    if (known.algorithm == call.algorithm && known.slices == call.slices && problem(known) == wanted) {
      return schedule;
    }
  }
  auto algorithm = findAlgorithm(call.algorithm, wanted);
  if (!algorithm.ok()) {
    ADD_FAILURE() << algorithm.status().toString();
    return nullptr;
  }
  auto made = std::make_shared<Schedule>((*algorithm)->make(wanted, {call.slices}));
  Status checked = checkSchedule(*made);
  EXPECT_TRUE(checked.ok()) << checked.message();
  schedules_.emplace_back(call, made);
  return made;
}

namespace {

constexpr int64_t kGuard = 64;

int64_t align(int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

struct Layout {
  uint64_t input, output, scratch, partial, end;
};

Layout layoutOf(const Problem& problem, const Schedule& schedule, int rank, uint64_t base, bool inPlace) {
  const int64_t size = problem.elementBytes;
  const int64_t in = inputElements(problem, rank) * size;
  const int64_t out = outputElements(problem, rank) * size;
  Layout layout;
  // An odd element's offset, so that nothing is aligned by luck.
  layout.input = base + static_cast<uint64_t>(kGuard + size);
  layout.output = layout.input + static_cast<uint64_t>(align(in) + kGuard);
  if (auto shift = inPlaceOffset(problem, rank); inPlace && shift) {
    const int64_t bytes = *shift * size;
    if (bytes < 0) {
      layout.output = layout.input + static_cast<uint64_t>(-bytes);
    } else {
      layout.output = layout.input;
      layout.input = layout.output + static_cast<uint64_t>(bytes);
    }
  }
  layout.scratch = base + static_cast<uint64_t>(kGuard + size) +
                   static_cast<uint64_t>(2 * kGuard + align(in) + align(out) + align(out));
  layout.partial = layout.scratch + static_cast<uint64_t>(align(schedule.scratchElements * size) + kGuard);
  layout.end = layout.partial + static_cast<uint64_t>(schedule.partialElements * problem.partialBytes + kGuard);
  return layout;
}

}  // namespace

CollectiveOperation World::operation(int index, const Call& call, const Call& asScheduled) {
  WorldRank& self = rank(index);
  CollectiveOperation operation;
  operation.schedule = schedule(asScheduled);
  const Layout layout = layoutOf(operation.schedule->problem, *operation.schedule, index, self.base, call.inPlace);
  EXPECT_LE(layout.end - self.base, self.memory.size());
  operation.type = call.type;
  operation.op = call.op;
  operation.timeoutMs = call.timeoutMs;
  operation.sequence = ++self.sequence;
  operation.arrivalPs = static_cast<int64_t>(1000 * operation.sequence) + index;
  operation.scale = call.scaled ? 0.5 * (index + 1) : 1;
  operation.input = layout.input;
  operation.output = layout.output;
  operation.scratch = layout.scratch;
  operation.partial = layout.partial;
  return operation;
}

struct World::Expected {
  Call call;
  std::vector<std::vector<std::byte>> inputs, outputs;  // By rank.
  std::vector<uint64_t> outputAt, sequences;
  std::vector<CollectiveOperation> operations;
};

std::shared_ptr<World::Expected> World::prepare(const Call& call, std::mt19937_64& random) {
  auto result = std::make_shared<Expected>();
  result->call = call;
  const Problem p = problem(call);
  const int64_t size = p.elementBytes;
  for (int r = 0; r < this->size(); ++r) {
    const auto index = static_cast<size_t>(r);
    result->operations.push_back(operation(r, call));
    WorldRank& self = rank(r);
    std::fill(self.memory.begin(), self.memory.end(), std::byte{0x5a});
    std::vector<std::byte> input(static_cast<size_t>(inputElements(p, r) * size));
    for (int64_t i = 0; i < inputElements(p, r); ++i) {
      Bits bits = random();
      if (call.exact || (isFloat(call.type) && bits % 4 != 0)) {
        const auto value = static_cast<int64_t>(random() % (call.exact ? 3 : 2001));
        bits = isFloat(call.type) ? encodeFloat(call.type, static_cast<double>(value) / (call.exact ? 1 : 64))
                                  : static_cast<Bits>(value);
      }
      std::memcpy(input.data() + i * size, &bits, static_cast<size_t>(size));
    }
    if (!input.empty()) {
      std::memcpy(self.at(result->operations[index].input), input.data(), input.size());
    }
    result->inputs.push_back(std::move(input));
    result->outputAt.push_back(result->operations[index].output);
  }
  for (int r = 0; r < this->size(); ++r) {
    std::vector<std::byte> output(static_cast<size_t>(outputElements(p, r) * size));
    for (int64_t i = 0; i < outputElements(p, r); ++i) {
      Bits bits = 0;
      auto of = [&](int from, int64_t at) {
        return loadBits(result->inputs[static_cast<size_t>(from)].data(), size, at);
      };
      const int64_t block = p.count > 0 ? i / p.count : 0, within = p.count > 0 ? i % p.count : 0;
      switch (p.collective) {
        case Collective::kAllGather:
        case Collective::kGather:
          bits = of(static_cast<int>(block), within);
          break;
        case Collective::kAllToAll:
          bits = of(static_cast<int>(block), r * p.count + within);
          break;
        case Collective::kBroadcast:
        case Collective::kPointToPoint:
          bits = of(p.root, i);
          break;
        case Collective::kScatter:
          bits = of(p.root, r * p.count + i);
          break;
        default: {
          const int64_t at = p.collective == Collective::kReduceScatter ? r * p.count + i : i;
          std::vector<Source> sources;
          for (int k = 0; k < this->size(); ++k) {
            sources.push_back({result->inputs[static_cast<size_t>(k)].data(), false,
                               result->operations[static_cast<size_t>(k)].scale});
          }
          Reduce what{.type = call.type, .op = call.op, .count = p.count};
          if (call.op == ReduceOp::kAverage) what.divisor = p.ranks;
          bits = expected(what, sources, at);
        }
      }
      std::memcpy(output.data() + i * size, &bits, static_cast<size_t>(size));
    }
    result->outputs.push_back(std::move(output));
  }
  return result;
}

void World::check(const Expected& expected, std::vector<OperationResult> results) {
  const int64_t size = elementSize(expected.call.type);
  for (int r = 0; r < this->size(); ++r) {
    const auto index = static_cast<size_t>(r);
    ASSERT_TRUE(results[index].status.ok())
        << callText(expected.call) << " rank " << r << ": " << results[index].status.toString();
    ASSERT_EQ(results[index].arrivalPs.size(), static_cast<size_t>(this->size()));
    for (int k = 0; k < this->size(); ++k) {
      ASSERT_EQ(results[index].arrivalPs[static_cast<size_t>(k)],
                expected.operations[static_cast<size_t>(k)].arrivalPs);
    }
    const auto& want = expected.outputs[index];
    WorldRank& self = rank(r);
    const std::byte* got = want.empty() ? nullptr : self.at(expected.outputAt[index]);
    for (int64_t i = 0; i < static_cast<int64_t>(want.size()) / size; ++i) {
      ASSERT_EQ(loadBits(got, size, i), loadBits(want.data(), size, i))
          << callText(expected.call) << " of " << this->size() << " ranks: rank " << r << " element " << i;
    }
    const bool inPlace = expected.call.inPlace && inPlaceOffset(problem(expected.call), r);
    const auto& input = expected.inputs[index];
    if (!inPlace && !input.empty()) {
      ASSERT_EQ(std::memcmp(self.at(expected.operations[index].input), input.data(), input.size()), 0)
          << callText(expected.call) << " changed its input";
    }
    if (!inPlace && !want.empty()) {
      for (int64_t i = 0; i < 8; ++i) {
        ASSERT_EQ(got[static_cast<int64_t>(want.size()) + i], std::byte{0x5a})
            << callText(expected.call) << " wrote behind its output";
      }
    }
  }
}

void World::runAndCheck(const Call& call, std::mt19937_64& random) {
  auto expected = prepare(call, random);
  std::vector<Outcome> outcomes(static_cast<size_t>(size()));
  for (int r = 0; r < size(); ++r) {
    const auto index = static_cast<size_t>(r);
    rank(r).executor->begin(expected->operations[index], outcomes[index].done());
  }
  std::vector<OperationResult> results;
  for (Outcome& outcome : outcomes) results.push_back(outcome.wait());
  check(*expected, std::move(results));
}

}  // namespace hpu::collectives::testing
