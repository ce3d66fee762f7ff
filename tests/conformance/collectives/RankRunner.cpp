// SPDX-License-Identifier: Apache-2.0
#include "RankRunner.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "Numbers.h"
#include "base/StatusMacros.h"

namespace hpu::collectives::testing {
namespace {

constexpr int64_t kGuard = 64, kArena = int64_t{96} << 20;
constexpr int64_t kTimeoutMs = 60000;

int64_t alignUp(int64_t bytes) {
  return (bytes + kGuard - 1) / kGuard * kGuard;
}

uint64_t hashOf(uint64_t hash, const std::byte* data, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, data + at, static_cast<size_t>(std::min<int64_t>(8, bytes - at)));
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

const std::vector<Device>& testDevices() {
  static const std::vector<Device> devices = [] {
    std::vector<Device> opened;
    for (int index = 0; index < 8; ++index) {
      DeviceOptions options;
      options.index = index;
      options.hbmBytes = int64_t{1} << 30;
      auto device = Device::open(options);
      if (!device.ok()) {
        std::fprintf(stderr, "device %d: %s\n", index, device.status().message().c_str());
        std::abort();
      }
      opened.push_back(*device);
    }
    return opened;
  }();
  return devices;
}

StatusOr<RankRunner> RankRunner::create(const Communicator& communicator, const Device& device) {
  RankRunner runner(communicator, device);
  HPU_ASSIGN(runner.arena_, runner.device_.allocate(kArena, "operands"));
  for (int i = 0; i < 3; ++i) {
    HPU_ASSIGN(Stream stream, Stream::create(device, {"rank stream " + std::to_string(i)}));
    runner.streams_.push_back(stream);
  }
  return runner;
}

RankRunner::Operands RankRunner::place(const Case& c) const {
  const int rank = communicator_.rank();
  const int64_t size = elementSize(c.type());
  const int64_t input = c.inputElements(rank) * size, output = c.outputElements(rank) * size;
  const int64_t odd = c.alignment() == Alignment::kByte ? 1 : c.alignment() == Alignment::kElement ? size : 0;
  Operands at;
  if (c.inPlaceAt(rank)) {
    const int64_t inside = c.inPlaceElement(rank) * size;
    const int64_t start = kGuard + odd;
    at.input = start + (c.inputInOutput() ? inside : 0);
    at.output = start + (c.inputInOutput() ? 0 : inside);
    at.bytes = alignUp(start + std::max(input, output)) + kGuard;
  } else {
    at.input = kGuard + odd;
    at.output = alignUp(at.input + input) + kGuard + odd;
    at.bytes = alignUp(at.output + output) + kGuard;
  }
  return at;
}

Status RankRunner::call(const Case& c, const Oracle& oracle, uint64_t input, uint64_t output, const Stream& stream) {
  const int rank = communicator_.rank();
  Communicator& comm = communicator_;
  const ElementType type = c.type();
  const int64_t count = c.count();
  switch (c.kind()) {
    case Kind::kAllReduce:
      return comm.allReduce(input, output, count, type, c.op(), stream);
    case Kind::kReduceScatter:
      return comm.reduceScatter(input, output, count, type, c.op(), stream);
    case Kind::kReduce:
      return comm.reduce(input, output, count, type, c.op(), c.root(), stream);
    case Kind::kAllReduceScaled:
      return comm.allReduceScaled(input, output, count, type, c.op(), c.scale(rank), stream);
    case Kind::kReduceScatterScaled:
      return comm.reduceScatterScaled(input, output, count, type, c.op(), c.scale(rank), stream);
    case Kind::kAllGather:
      return comm.allGather(input, output, count, type, stream);
    case Kind::kAllToAll:
      return comm.allToAll(input, output, count, type, stream);
    case Kind::kAllToAllV:
      return comm.allToAllV(input, oracle.inputCounts(rank), oracle.inputDisplacements(rank), output,
                            oracle.outputCounts(rank), oracle.outputDisplacements(rank), type, stream);
    case Kind::kBroadcast:
      return comm.broadcast(input, output, count, type, c.root(), stream);
    case Kind::kGather:
      return comm.gather(input, output, count, type, c.root(), stream);
    case Kind::kScatter:
      return comm.scatter(input, output, count, type, c.root(), stream);
    case Kind::kRelay:
      return comm.relay(input, output, count, type, c.root(), c.destination(), stream);
    case Kind::kBarrier:
      return comm.barrier(stream);
    case Kind::kSendReceive: {
      const int next = (rank + 1) % c.ranks(), before = (rank + c.ranks() - 1) % c.ranks();
      // Outside of a group each waits for its peer: not everybody may begin with a send.
      if (c.grouped() || rank % 2 == 0) {
        HPU_RETURN_IF_ERROR(comm.send(input, count, type, next, stream));
        return comm.receive(output, count, type, before, stream);
      }
      HPU_RETURN_IF_ERROR(comm.receive(output, count, type, before, stream));
      return comm.send(input, count, type, next, stream);
    }
  }
  return internalError("no such kind");
}

/// On return each image is the stream's region as the calls have left it.
Status RankRunner::once(const Case& c, std::vector<std::vector<std::byte>>& images) {
  const int rank = communicator_.rank();
  const Operands at = place(c);
  if (at.bytes * c.streams() > kArena) return internalError("the test's arena is too small");
  std::vector<Oracle> oracles;
  for (int s = 0; s < c.streams(); ++s) {
    oracles.emplace_back(c, s);
    auto& image = images[static_cast<size_t>(s)];
    image.assign(static_cast<size_t>(at.bytes), std::byte{0xa5});
    oracles.back().fillInput(rank, image.data() + at.input);
    HPU_RETURN_IF_ERROR(streams_[static_cast<size_t>(s)].copyToDevice(arena_, image.data(), at.bytes, s * at.bytes));
  }
  // What is not there has no address.
  auto address = [&](int s, int64_t offset, int64_t elements) -> uint64_t {
    return elements == 0 ? 0 : arena_.address() + static_cast<uint64_t>(s * at.bytes + offset);
  };
  if (c.grouped()) HPU_RETURN_IF_ERROR(groupStart());
  Status issued;
  for (int s = 0; s < c.streams() && issued.ok(); ++s)
    issued = call(c, oracles[static_cast<size_t>(s)], address(s, at.input, c.inputElements(rank)),
                  address(s, at.output, c.outputElements(rank)), streams_[static_cast<size_t>(s)]);
  if (c.grouped()) {
    Status ended = groupEnd();
    if (issued.ok()) issued = ended;
  }
  HPU_RETURN_IF_ERROR(issued);
  for (int s = 0; s < c.streams(); ++s)
    HPU_RETURN_IF_ERROR(streams_[static_cast<size_t>(s)].copyToHost(images[static_cast<size_t>(s)].data(), arena_,
                                                                    at.bytes, s * at.bytes));
  for (int s = 0; s < c.streams(); ++s)
    HPU_RETURN_IF_ERROR(streams_[static_cast<size_t>(s)].synchronize(4 * kTimeoutMs));
  return okStatus();
}

RankReport RankRunner::run(const Case& c) {
  const int rank = communicator_.rank();
  RankReport report;
  auto wrong = [&](const std::string& what) {
    if (report.wrong.empty()) report.wrong = "rank " + std::to_string(rank) + ": " + what;
  };
  std::vector<std::vector<std::byte>> images[2] = {std::vector<std::vector<std::byte>>(3),
                                                   std::vector<std::vector<std::byte>>(3)};
  for (auto& image : images) {
    Status status = once(c, image);
    if (status.ok()) continue;
    wrong(status.toString());
    report.broken = true;
    // Work that is still enqueued writes to the images.
    communicator_.abort("a case failed").ignore();
    for (const Stream& stream : streams_) stream.synchronize(kTimeoutMs).ignore();
    return report;
  }
  const Operands at = place(c);
  const int64_t size = elementSize(c.type());
  const int64_t outputBytes = c.outputElements(rank) * size;
  for (int s = 0; s < c.streams(); ++s) {
    const std::vector<std::byte>& image = images[0][static_cast<size_t>(s)];
    const std::string where = " (stream " + std::to_string(s) + ")";
    if (image != images[1][static_cast<size_t>(s)]) wrong("two runs differ" + where);
    if (std::string what = Oracle(c, s).check(rank, image.data() + at.output); !what.empty()) wrong(what + where);
    report.hash = hashOf(report.hash, image.data() + at.output, outputBytes);
    // All but the output is what it was; in place, the part of the input that is not output may be
    // anything.
    std::vector<std::byte> before(image.size(), std::byte{0xa5});
    Oracle(c, s).fillInput(rank, before.data() + at.input);
    std::copy_n(image.data() + at.output, outputBytes, before.data() + at.output);
    if (c.inPlaceAt(rank)) std::copy_n(image.data() + at.input, c.inputElements(rank) * size, before.data() + at.input);
    if (auto differ = std::mismatch(image.begin(), image.end(), before.begin()); differ.first != image.end())
      wrong("byte " + std::to_string(differ.first - image.begin() - at.output) +
            " from the output's start on was written, or the input" + where);
  }
  return report;
}

std::string combine(const Case& c, const std::vector<RankReport>& reports) {
  std::string text;
  for (const RankReport& report : reports)
    if (!report.wrong.empty()) text += (text.empty() ? "" : "; ") + report.wrong;
  const bool alike = c.kind() == Kind::kAllReduce || c.kind() == Kind::kAllReduceScaled || c.kind() == Kind::kAllGather;
  if (text.empty() && alike)
    for (const RankReport& report : reports)
      if (report.hash != reports[0].hash) text = "the ranks' results differ in their bits";
  return text;
}

std::vector<std::string> runAsThreads(const std::vector<Case>& cases) {
  const int ranks = cases.empty() ? 0 : cases[0].ranks();
  std::vector<std::string> wrong(cases.size());
  std::vector<std::vector<RankReport>> reports(cases.size(), std::vector<RankReport>(static_cast<size_t>(ranks)));
  for (size_t next = 0; next < cases.size();) {
    auto id = createUniqueId();
    if (!id.ok()) {
      wrong[next] = "createUniqueId: " + id.status().toString();
      return wrong;
    }
    std::vector<size_t> done(static_cast<size_t>(ranks));  // The first case that was not run.
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < ranks; ++rank)
        threads.emplace_back([&, rank] {
          const auto r = static_cast<size_t>(rank);
          size_t at = next;
          auto fails = [&](const Status& status) {
            reports[at][r].wrong = "rank " + std::to_string(rank) + ": " + status.toString();
            reports[at][r].broken = true;
            done[r] = at + 1;
          };
          CommunicatorOptions options;
          options.initTimeoutMs = options.timeoutMs = kTimeoutMs;
          auto comm = Communicator::create(*id, rank, ranks, testDevices()[r], options);
          if (!comm.ok()) return fails(comm.status());
          auto runner = RankRunner::create(*comm, testDevices()[r]);
          if (!runner.ok()) return fails(runner.status());
          for (; at < cases.size(); ++at) {
            reports[at][r] = runner->run(cases[at]);
            if (reports[at][r].broken) break;
          }
          done[r] = std::min(at + 1, cases.size());
        });
    }
    // A failed rank may have kept others from cases that they had passed otherwise: go on after the
    // first one that did not get everywhere.
    size_t first = *std::min_element(done.begin(), done.end());
    for (size_t at = next; at < first; ++at) wrong[at] = combine(cases[at], reports[at]);
    next = std::max(first, next + 1);
  }
  return wrong;
}

}  // namespace hpu::collectives::testing
