// SPDX-License-Identifier: Apache-2.0
// Sums a vector over several devices.
//
//   allreduce 4                                     # four ranks as threads of this process
//   HCCL_COMM_ID=127.0.0.1:5000 mpirun -n 4 allreduce     # four ranks as processes
//   HCCL_COMM_ID=127.0.0.1:5000 torchrun --no_python --nproc_per_node 4 allreduce
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "hpu/collectives.h"
#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/stream.h"

namespace coll = hpu::collectives;

namespace {

constexpr int64_t kCount = 1 << 20;

/// What every rank does; true when its sums are right.
hpu::StatusOr<bool> run(coll::Communicator comm) {
  hpu::Device device = comm.device();
  auto stream = hpu::Stream::create(device);
  if (!stream.ok()) return stream.status();
  auto data = device.allocate(kCount * 4, "gradients");
  if (!data.ok()) return data.status();
  std::vector<float> values(kCount);
  for (int64_t i = 0; i < kCount; ++i) values[static_cast<size_t>(i)] = static_cast<float>(comm.rank() + i % 10);

  // Everything is enqueued; the host waits once, at the end.
  hpu::Event begin, end;
  for (hpu::Status status : {
           stream->copyToDevice(*data, values.data(), kCount * 4),
           stream->record(begin),
           comm.allReduce(data->address(), data->address(), kCount, hpu::ElementType::kF32, coll::ReduceOp::kSum,
                          *stream),
           stream->record(end),
           stream->copyToHost(values.data(), *data, kCount * 4),
           stream->synchronize(),
       })
    if (!status.ok()) return status;

  int n = comm.ranks();
  bool right = true;
  for (int64_t i = 0; i < kCount; ++i) {
    auto want = static_cast<float>(n * (n - 1) / 2 + n * (i % 10));
    right = right && values[static_cast<size_t>(i)] == want;
  }
  auto ns = end.elapsedNsSince(begin);
  auto predicted = comm.predict(coll::Operation::kAllReduce, kCount, hpu::ElementType::kF32);
  if (!ns.ok()) return ns.status();
  if (!predicted.ok()) return predicted.status();
  std::printf("rank %d of %d on %s: %s; 4 MiB in %.1f us of device time (%s, predicted %.1f us)\n", comm.rank(), n,
              device.info().pciAddress.c_str(), right ? "right" : "WRONG", static_cast<double>(*ns) / 1e3,
              predicted->algorithm.c_str(), static_cast<double>(predicted->predictedNs) / 1e3);
  hpu::Status done = comm.finalize();
  if (!done.ok()) return done;
  return right;
}

int report(const hpu::StatusOr<bool>& result) {
  if (!result.ok()) std::fprintf(stderr, "%s\n", result.status().toString().c_str());
  return result.ok() && *result ? 0 : 1;
}

int runProcess(const coll::LauncherEnvironment& launch) {
  hpu::DeviceOptions options;
  options.index = launch.localRank;
  auto device = hpu::Device::open(options);
  if (!device.ok()) return report(device.status());
  // An id of zeros: HCCL_COMM_ID says where the ranks meet.
  auto comm = coll::Communicator::create(coll::UniqueId{}, launch.rank, launch.ranks, *device);
  return report(comm.ok() ? run(*comm) : comm.status());
}

int runThreads(int ranks) {
  std::vector<hpu::Device> devices;
  for (int index = 0; index < ranks; ++index) {
    auto device = hpu::Device::open();
    if (!device.ok()) return report(device.status());
    devices.push_back(*device);
  }
  auto comms = coll::Communicator::createAll(devices);
  if (!comms.ok()) return report(comms.status());
  std::vector<int> codes(comms->size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < comms->size(); ++rank)
    threads.emplace_back([&, rank] { codes[rank] = report(run((*comms)[rank])); });
  for (std::thread& thread : threads) thread.join();
  for (int code : codes)
    if (code) return code;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  auto launch = coll::launcherEnvironment();
  if (!launch.ok()) return report(launch.status());
  if (!launch->source.empty()) return runProcess(*launch);
  int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  if (ranks < 1 || ranks > 8) return std::fprintf(stderr, "allreduce [1..8]\n"), 2;
  return runThreads(ranks);
}
