// SPDX-License-Identifier: Apache-2.0
#include "tools/hccl-perf/RankRun.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "hpu/event.h"
#include "hpu/stream.h"
#include "tools/hccl-perf/Pattern.h"

namespace hpu::tools {
namespace {

using collectives::Communicator;
using Clock = std::chrono::steady_clock;

/// Device memory of one workload. In place, the input lies in the output or the other way round, as
/// HCCL has it.
struct Buffers {
  Buffer input, output;
  uint64_t in = 0, out = 0;
};

StatusOr<Buffers> allocate(hpu::Device& device, const Workload& work, int rank, bool inPlace) {
  Buffers buffers;
  const int64_t element = elementSize(work.type);
  auto bytes = [&](int64_t elements) { return std::max<int64_t>(elements * element, 1); };
  if (!inPlace) {
    HPU_ASSIGN(buffers.input, device.allocate(bytes(work.inputElements()), "hccl-perf input"));
    HPU_ASSIGN(buffers.output, device.allocate(bytes(work.outputElements()), "hccl-perf output"));
    buffers.in = buffers.input.address();
    buffers.out = buffers.output.address();
    return buffers;
  }
  HPU_ASSIGN(buffers.input,
             device.allocate(bytes(std::max(work.inputElements(), work.outputElements())), "hccl-perf buffer"));
  buffers.in = buffers.out = buffers.input.address();
  auto part = static_cast<uint64_t>(rank * work.count * element);
  if (work.op == PerfOp::kAllGather) buffers.in += part;
  if (work.op == PerfOp::kReduceScatter) buffers.out += part;
  return buffers;
}

Status enqueue(Communicator& comm, const Workload& work, const Buffers& buffers, const Stream& stream) {
  switch (work.op) {
    case PerfOp::kAllReduce:
      return comm.allReduce(buffers.in, buffers.out, work.count, work.type, work.redop, stream);
    case PerfOp::kAllGather:
      return comm.allGather(buffers.in, buffers.out, work.count, work.type, stream);
    case PerfOp::kReduceScatter:
      return comm.reduceScatter(buffers.in, buffers.out, work.count, work.type, work.redop, stream);
    case PerfOp::kAllToAll:
      return comm.allToAll(buffers.in, buffers.out, work.count, work.type, stream);
    case PerfOp::kBroadcast:
      return comm.broadcast(buffers.in, buffers.out, work.count, work.type, work.root, stream);
    case PerfOp::kReduce:
      return comm.reduce(buffers.in, buffers.out, work.count, work.type, work.redop, work.root, stream);
    case PerfOp::kSendRecv:
      break;
  }
  HPU_RETURN_IF_ERROR(collectives::groupStart());
  Status sent = comm.send(buffers.in, work.count, work.type, (comm.rank() + 1) % comm.ranks(), stream);
  Status received =
      comm.receive(buffers.out, work.count, work.type, (comm.rank() + comm.ranks() - 1) % comm.ranks(), stream);
  Status ended = collectives::groupEnd();
  if (!sent.ok()) return sent;
  return received.ok() ? ended : received;
}

/// One run with known data.
StatusOr<int64_t> checkOnce(Communicator& comm, const Workload& work, const Buffers& buffers, const Stream& stream,
                            int seed) {
  const int64_t element = elementSize(work.type);
  Pattern pattern(work, seed);
  std::vector<std::byte> host(static_cast<size_t>(std::max(work.inputElements(), work.outputElements()) * element));
  Stream copies = stream;
  if (work.outputElements() > 0)
    HPU_RETURN_IF_ERROR(copies.fill(buffers.out, 0xee, 1, work.outputElements() * element));
  if (work.inputElements() > 0) {
    pattern.fillInput(comm.rank(), host.data());
    HPU_RETURN_IF_ERROR(copies.copyToDevice(buffers.in, host.data(), work.inputElements() * element));
  }
  HPU_RETURN_IF_ERROR(enqueue(comm, work, buffers, stream));
  HPU_RETURN_IF_ERROR(stream.synchronize());
  if (work.outputElements() == 0) return int64_t{0};
  HPU_RETURN_IF_ERROR(copies.copyToHost(host.data(), buffers.out, work.outputElements() * element));
  HPU_RETURN_IF_ERROR(copies.synchronize());
  return pattern.wrong(comm.rank(), host.data());
}

StatusOr<Measurement> measure(Communicator& comm, const Workload& work, const Buffers& buffers, const Stream& stream,
                              const RunOptions& options, int seed) {
  Measurement result;
  if (options.check) {
    HPU_ASSIGN(result.wrong, checkOnce(comm, work, buffers, stream, seed));
  }
  for (int i = 0; i < options.warmup; ++i) HPU_RETURN_IF_ERROR(enqueue(comm, work, buffers, stream));
  Stream timed = stream;
  Event begin, end;
  // So that nobody's first operation waits for another rank's check.
  HPU_RETURN_IF_ERROR(comm.barrier(stream));
  HPU_RETURN_IF_ERROR(stream.synchronize());
  HPU_RETURN_IF_ERROR(timed.record(begin));
  auto start = Clock::now();
  for (int i = 0; i < options.iterations; ++i) {
    HPU_RETURN_IF_ERROR(enqueue(comm, work, buffers, stream));
    if (options.blocking) HPU_RETURN_IF_ERROR(stream.synchronize());
  }
  HPU_RETURN_IF_ERROR(timed.record(end));
  HPU_RETURN_IF_ERROR(stream.synchronize());
  std::chrono::duration<double, std::micro> wall = Clock::now() - start;
  HPU_ASSIGN(int64_t deviceNs, end.elapsedNsSince(begin));
  result.wallUs = wall.count() / options.iterations;
  result.deviceUs = static_cast<double>(deviceNs) / 1e3 / options.iterations;
  return result;
}

}  // namespace

Status runRank(hpu::Device device, Communicator comm, const std::vector<Workload>& works, const RunOptions& options,
               const std::function<Status(size_t, bool, const Measurement&)>& report) {
  HPU_ASSIGN(Stream stream, Stream::create(device, {"hccl-perf", 0}));
  for (size_t i = 0; i < works.size(); ++i) {
    for (bool inPlace : {false, true}) {
      if (inPlace && !works[i].hasInPlace()) continue;
      if (options.mayStart && !options.mayStart(2 * i + inPlace)) return comm.finalize();
      std::string what =
          base::strCat(perfOpNames()[static_cast<size_t>(works[i].op)], " of ", works[i].count, " ",
                       dataTypeName(works[i].type), inPlace ? " in place" : "", " on rank ", comm.rank());
      StatusOr<Buffers> buffers = allocate(device, works[i], comm.rank(), inPlace);
      if (!buffers.ok()) return buffers.status().withContext(what);
      StatusOr<Measurement> result =
          measure(comm, works[i], *buffers, stream, options, static_cast<int>(2 * i + inPlace));
      if (!result.ok()) return result.status().withContext(what);
      HPU_RETURN_IF_ERROR(report(i, inPlace, *result));
    }
  }
  return comm.finalize();
}

}  // namespace hpu::tools
