// SPDX-License-Identifier: Apache-2.0
// One rank of a fault scenario: fault_rank SEED RANK. It says where it is ("at ..."), how it went
// ("result CODE MESSAGE"), does as it is told ("shrink 0 2", "go on", "quit"), and says at the end
// what it has not given back ("leaks ...").
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "Resources.h"
#include "Scenario.h"
#include "UniqueIdText.h"
#include "base/StatusMacros.h"
#include "hpu/collectives.h"
#include "hpu/device.h"
#include "hpu/stream.h"

namespace hpu::collectives::testing {
namespace {

constexpr int64_t kHbmBytes = int64_t{64} << 20, kOperandBytes = int64_t{262144} * 4 * kScenarioRanks;

void say(const std::string& what, const Status& status = {}) {
  // One write a line; the message is one line.
  std::string text =
      status.ok() ? what : what + " " + std::string(statusCodeName(status.code())) + " " + status.message();
  for (char& c : text)
    if (c == '\n') c = ' ';
  std::printf("%s\n", text.c_str());
}

std::string command() {
  std::string line;
  std::getline(std::cin, line);
  return line;
}

/// Values are small whole numbers, alike in all elements of an operand.
int64_t contribution(int rank, size_t call) {
  return static_cast<int64_t>((call * 7 + static_cast<size_t>(rank) * 3) % 50);
}
uint32_t bitsOf(ElementType type, int64_t value) {
  if (type != ElementType::kF32) return static_cast<uint32_t>(value);
  auto number = static_cast<float>(value);
  uint32_t bits = 0;
  std::memcpy(&bits, &number, 4);
  return bits;
}

class Rank {
 public:
  Rank(const Scenario& scenario, int rank) : scenario_(scenario), rank_(rank) {}

  Status prepare() {
    DeviceOptions options;
    options.index = rank_;
    options.hbmBytes = kHbmBytes;
    HPU_ASSIGN(device_, Device::open(options));
    HPU_ASSIGN(stream_, Stream::create(device_, {"calls"}));
    HPU_ASSIGN(input_, device_.allocate(kOperandBytes, "input"));
    HPU_ASSIGN(output_, device_.allocate(kOperandBytes, "output"));
    HPU_RETURN_IF_ERROR(stream_.fill(input_.address(), 0, 4, kOperandBytes / 4));
    return okStatus();
  }
  /// What a process makes once and keeps is there before anything is counted.
  Status warmUp() {
    HPU_ASSIGN(UniqueId own, createUniqueId());
    HPU_ASSIGN(Communicator alone, Communicator::create(own, 0, 1, device_));
    HPU_RETURN_IF_ERROR(
        alone.allReduce(input_.address(), output_.address(), 262144, ElementType::kI32, ReduceOp::kSum, stream_));
    HPU_RETURN_IF_ERROR(stream_.synchronize());
    return alone.finalize();
  }

  Status runAll() {
    say("at init");
    UniqueId id;
    if (scenario_.host == rank_) {
      HPU_ASSIGN(id, createUniqueId());
      say("id " + idText(id));
    } else if (!idFromText(command(), id)) {
      return internalError("no id came");
    }
    CommunicatorOptions options;
    options.name = "faulty";
    options.initTimeoutMs = kInitTimeoutMs;
    options.timeoutMs = kTimeoutMs;
    std::jthread aborter;
    if (isVictim(Mishap::kAbort) && scenario_.moment == Moment::kInit) {
      // Of a creation in progress only a non-blocking one can be aborted.
      options.blocking = false;
      HPU_ASSIGN(comm_, Communicator::create(id, rank_, kScenarioRanks, device_, options));
      aborter = abortSoon();
      while (comm_.pending()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      HPU_RETURN_IF_ERROR(comm_.ready());
    } else {
      HPU_ASSIGN(comm_, Communicator::create(id, rank_, kScenarioRanks, device_, options));
    }
    say("at ready");
    size_t waited = 0;
    for (size_t i = 0; i < scenario_.calls.size(); ++i) {
      say("at call " + std::to_string(i));
      const bool mine =
          scenario_.moment == Moment::kOperation && rank_ == scenario_.victim && i == static_cast<size_t>(scenario_.at);
      if (mine && scenario_.mishap == Mishap::kAbort) aborter = abortSoon();
      if (mine && scenario_.mishap == Mishap::kLeave) {
        comm_ = Communicator();
        return cancelled("the scenario wants this rank to leave");
      }
      if (mine && scenario_.mishap == Mishap::kMissing) {
        say("missing");
        command();
        Status error = comm_.asyncError();
        return error.ok() ? internalError("the others have failed, and asyncError() is ok") : error;
      }
      HPU_RETURN_IF_ERROR(enqueue(i, mine));
      if ((i + 1) % static_cast<size_t>(scenario_.waitEvery) != 0 && i + 1 < scenario_.calls.size()) continue;
      HPU_RETURN_IF_ERROR(stream_.synchronize(kHangMs));
      for (; waited <= i; ++waited) HPU_RETURN_IF_ERROR(check(waited));
    }
    if (isVictim(Mishap::kAbort) && scenario_.moment == Moment::kFinalize) aborter = abortSoon();
    say("at finalize");
    return comm_.finalize(2 * kTimeoutMs);
  }

  /// After a failure: the others' new communicator works.
  Status shrink(const std::vector<int>& excluded) {
    CommunicatorOptions options;
    options.initTimeoutMs = 4 * kInitTimeoutMs;
    options.timeoutMs = 4 * kTimeoutMs;
    HPU_ASSIGN(Communicator smaller, comm_.shrink(excluded, options));
    HPU_ASSIGN(Stream stream, Stream::create(device_, {"after"}));
    HPU_RETURN_IF_ERROR(stream.fill(input_.address(), static_cast<uint32_t>(1 + rank_), 4, 1000));
    HPU_RETURN_IF_ERROR(
        smaller.allReduce(input_.address(), output_.address(), 1000, ElementType::kI32, ReduceOp::kSum, stream));
    std::vector<int32_t> result(1000);
    HPU_RETURN_IF_ERROR(stream.copyToHost(result.data(), output_, 4000));
    HPU_RETURN_IF_ERROR(stream.synchronize(kHangMs));
    int32_t expected = 0;
    for (int rank = 0; rank < kScenarioRanks; ++rank) expected += 1 + rank;
    for (int rank : excluded) expected -= 1 + rank;
    for (int32_t value : result)
      if (value != expected) return dataLoss("a wrong sum after the shrink");
    return smaller.finalize(8 * kTimeoutMs);
  }

  void drop() {
    comm_ = Communicator();
    stream_ = Stream();
    input_ = output_ = Buffer();
    ballast_.clear();
    device_ = Device();
  }

 private:
  static constexpr int64_t kHangMs = 100000;  ///< The driver gives up later.

  bool isVictim(Mishap mishap) const { return scenario_.mishap == mishap && rank_ == scenario_.victim; }
  std::jthread abortSoon() {
    return std::jthread([comm = comm_, delay = scenario_.delayUs]() mutable {
      std::this_thread::sleep_for(std::chrono::microseconds(delay));
      comm.abort("the scenario wants it").ignore();
    });
  }

  Status issue(const ScenarioCall& call, uint64_t input, uint64_t output) {
    switch (call.kind) {
      case ScenarioCall::kAllReduce:
        return comm_.allReduce(input, output, call.count, call.type, call.op, stream_);
      case ScenarioCall::kBroadcast:
        return comm_.broadcast(input, output, call.count, call.type, call.root, stream_);
      case ScenarioCall::kAllGather:
        return comm_.allGather(input, output, call.count, call.type, stream_);
      case ScenarioCall::kReduceScatter:
        return comm_.reduceScatter(input, output, call.count, call.type, call.op, stream_);
      case ScenarioCall::kReduce:
        return comm_.reduce(input, output, call.count, call.type, call.op, call.root, stream_);
    }
    return internalError("no such call");
  }

  Status enqueue(size_t index, bool mine) {
    ScenarioCall call = scenario_.calls[index];
    const ScenarioCall right = call;
    if (mine) {
      switch (scenario_.mishap) {
        case Mishap::kCount:
          call.count = call.count > 1 ? call.count - 1 : 2;
          break;
        case Mishap::kType:
          call.type = call.type == ElementType::kI32 ? ElementType::kF32 : ElementType::kI32;
          break;
        case Mishap::kOp:
          call.op = call.op == ReduceOp::kSum ? ReduceOp::kMin : ReduceOp::kSum;
          break;
        case Mishap::kRoot:
          call.root = (call.root + 1) % kScenarioRanks;
          break;
        case Mishap::kCollective:
          call.kind = call.kind == ScenarioCall::kAllReduce ? ScenarioCall::kAllGather : ScenarioCall::kAllReduce;
          break;
        case Mishap::kPointer: {
          int32_t host[4] = {};
          Status refused = issue(call, reinterpret_cast<uintptr_t>(host), output_.address());
          if (refused.ok()) return internalError("a host pointer was taken");
          refused = issue(call, input_.address(), kHbmBase + kHbmBytes - 4);
          if (refused.ok()) return internalError("an address beyond all memory was taken");
          break;
        }
        case Mishap::kMemory:
          for (int64_t bytes = kHbmBytes / 2; bytes >= 4096; bytes /= 2)
            for (;;) {
              auto more = device_.allocate(bytes, "ballast");
              if (!more.ok()) break;
              ballast_.push_back(*more);
            }
          break;
        default:
          break;
      }
    }
    HPU_RETURN_IF_ERROR(
        stream_.fill(input_.address(), bitsOf(right.type, contribution(rank_, index)), 4, kOperandBytes / 4));
    if (mine && scenario_.mishap == Mishap::kExtra) {
      ScenarioCall extra;
      extra.count = 7777;
      HPU_RETURN_IF_ERROR(issue(extra, input_.address(), output_.address()));
    }
    Status issued = issue(call, input_.address(), output_.address());
    if (!issued.ok() && mine && scenario_.mishap == Mishap::kMemory)
      // What a program does that cannot go on.
      comm_.abort(issued.message()).ignore();
    HPU_RETURN_IF_ERROR(issued);
    results_.resize(scenario_.calls.size());
    auto& result = results_[index];
    result.resize(4);
    return stream_.copyToHost(result.data(), output_, 4);
  }

  /// The first element says whether the call moved the right data.
  Status check(size_t index) const {
    const ScenarioCall& call = scenario_.calls[index];
    int64_t expected = call.op == ReduceOp::kSum ? 0 : -1;
    for (int rank = 0; rank < kScenarioRanks; ++rank) {
      int64_t value = contribution(rank, index);
      expected = call.op == ReduceOp::kSum ? expected + value : std::max(expected, value);
    }
    if (call.kind == ScenarioCall::kBroadcast) expected = contribution(call.root, index);
    if (call.kind == ScenarioCall::kAllGather) expected = contribution(0, index);
    if (call.kind == ScenarioCall::kReduce && call.root != rank_) return okStatus();
    uint32_t actual = 0;
    std::memcpy(&actual, results_[index].data(), 4);
    if (actual == bitsOf(call.type, expected)) return okStatus();
    return dataLoss("call " + std::to_string(index) + " gave a wrong result");
  }

  const Scenario& scenario_;
  const int rank_;
  Device device_;
  Stream stream_;
  Buffer input_, output_;
  Communicator comm_;
  std::vector<Buffer> ballast_;
  std::vector<std::vector<std::byte>> results_;
};

int rankMain(uint64_t seed, int index) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const Scenario scenario = makeScenario(seed);
  Rank rank(scenario, index);
  auto unprepared = [](const Status& status) {
    say("unprepared", status);
    return 3;
  };
  if (Status status = rank.prepare(); !status.ok()) return unprepared(status);
  if (Status status = rank.warmUp(); !status.ok()) return unprepared(status);
  rank.drop();
  const Resources before = settledResources(std::nullopt);
  if (Status status = rank.prepare(); !status.ok()) return unprepared(status);
  Status status = rank.runAll();
  say(status.ok() ? "result OK" : "result", status);
  for (std::string line = command(); line != "quit"; line = command()) {
    if (line.empty()) return 4;  // The driver is gone.
    if (line.rfind("shrink", 0) != 0) continue;
    std::istringstream words(line.substr(6));
    std::vector<int> excluded;
    for (int other = 0; words >> other;) excluded.push_back(other);
    Status shrunk = rank.shrink(excluded);
    say(shrunk.ok() ? "shrink OK" : "shrink", shrunk);
  }
  rank.drop();
  say("leaks " + difference(before, settledResources(before)));
  return 0;
}

}  // namespace
}  // namespace hpu::collectives::testing

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return hpu::collectives::testing::rankMain(std::strtoull(argv[1], nullptr, 10), std::atoi(argv[2]));
}
