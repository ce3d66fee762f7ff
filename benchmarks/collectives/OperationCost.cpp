// SPDX-License-Identifier: Apache-2.0
// What a collective costs a rank beside moving its bytes: host allocations and, in the hands of operation_cost.py,
// instructions.
//
//   collectives_operation_cost --ranks 1 --operations 2000 --queued 100 --bytes 64
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "hpu/collectives.h"
#include "hpu/device.h"
#include "hpu/stream.h"

namespace {

std::atomic<uint64_t> gAllocations{0};

struct Options {
  int ranks = 1, operations = 2000, queued = 100;
  int64_t bytes = 64;
};

int fail(const hpu::Status& status) {
  std::fprintf(stderr, "collectives_operation_cost: %s\n", status.toString().c_str());
  return 1;
}

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; i += 2) {
    const long value = i + 1 < argc ? std::strtol(argv[i + 1], nullptr, 10) : 0;
    if (value < 1) return false;
    if (!std::strcmp(argv[i], "--ranks")) {
      options.ranks = static_cast<int>(value);
    } else if (!std::strcmp(argv[i], "--operations")) {
      options.operations = static_cast<int>(value);
    } else if (!std::strcmp(argv[i], "--queued")) {
      options.queued = static_cast<int>(value);
    } else if (!std::strcmp(argv[i], "--bytes")) {
      options.bytes = value;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

void* operator new(std::size_t bytes) {
  gAllocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr, "usage: %s [--ranks N] [--operations N] [--queued N] [--bytes N]\n", argv[0]);
    return 2;
  }
  std::vector<hpu::Device> devices;
  std::vector<hpu::Stream> streams;
  std::vector<hpu::Buffer> buffers;
  for (int rank = 0; rank < options.ranks; ++rank) {
    hpu::DeviceOptions device;
    device.index = rank;
    device.hbmBytes = int64_t{1} << 30;
    device.threads = 1;
    auto opened = hpu::Device::open(device);
    if (!opened.ok()) return fail(opened.status());
    devices.push_back(*opened);
    streams.push_back(hpu::Stream::create(devices.back()).value());
    buffers.push_back(devices.back().allocate(options.bytes).value());
  }
  auto made = hpu::collectives::Communicator::createAll(devices);
  if (!made.ok()) return fail(made.status());
  std::atomic<bool> failed{false};
  auto run = [&](int rank, int operations) {
    auto at = static_cast<size_t>(rank);
    const uint64_t address = buffers[at].address();
    for (int i = 0; i < operations && !failed; ++i) {
      hpu::Status status = (*made)[at].allReduce(address, address, options.bytes / 4, hpu::ElementType::kF32,
                                                 hpu::collectives::ReduceOp::kSum, streams[at]);
      if (status.ok() && (i + 1) % options.queued == 0) status = streams[at].synchronize();
      if (!status.ok()) failed = fail(status);
    }
  };
  auto all = [&](int operations) {
    std::vector<std::thread> threads;
    for (int rank = 1; rank < options.ranks; ++rank) threads.emplace_back(run, rank, operations);
    run(0, operations);
    for (std::thread& thread : threads) thread.join();
  };
  all(4 * options.queued);  // What is made once is made now.
  const uint64_t before = gAllocations.load();
  const auto begin = std::chrono::steady_clock::now();
  all(options.operations);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  const double calls = static_cast<double>(options.operations) * options.ranks;
  std::printf("%d ranks, %d operations of %lld bytes, %d queued: %.2f allocations and %.2f us an operation\n",
              options.ranks, options.operations, static_cast<long long>(options.bytes), options.queued,
              static_cast<double>(gAllocations.load() - before) / calls, took.count() / options.operations);
  return failed ? 1 : 0;
}
