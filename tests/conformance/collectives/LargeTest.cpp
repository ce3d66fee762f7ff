// SPDX-License-Identifier: Apache-2.0
// An all-reduce of more than 4 GiB on two ranks in place: sizes and offsets beyond 32 bits. Needs
// twice that memory, and is skipped where the machine has less.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "hpu/collectives.h"
#include "hpu/device.h"
#include "hpu/stream.h"

namespace hpu::collectives::testing {
namespace {

int64_t availableBytes() {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);)
    if (line.rfind("MemAvailable:", 0) == 0) return std::stoll(line.substr(13)) * 1024;
  return 0;
}

TEST(CollectiveLarge, MoreThanFourGigabytesInPlace) {
  constexpr int64_t kCount = (int64_t{1} << 32) + (int64_t{3} << 20) + 17;
  constexpr int64_t kPiece = int64_t{64} << 20, kPeriod = 251;
  const int64_t needed = 2 * kCount + (int64_t{3} << 30);
  if (availableBytes() < needed)
    GTEST_SKIP() << "needs " << (needed >> 20) << " MiB of memory, and " << (availableBytes() >> 20)
                 << " MiB are available";
  std::vector<Device> devices;
  for (int index = 0; index < 2; ++index) {
    DeviceOptions options;
    options.index = index;
    options.hbmBytes = int64_t{32} << 30;  // Sparse; the schedule asks for scratch of its own.
    devices.push_back(Device::open(options).value());
  }
  auto comms = Communicator::createAll(devices);
  ASSERT_TRUE(comms.ok()) << comms.status().toString();
  auto value = [](int rank, int64_t index) { return static_cast<int8_t>((index % kPeriod) * (rank + 1) + 7 * rank); };
  auto check = [](const Status& status) { ASSERT_TRUE(status.ok()) << status.toString(); };
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      const auto r = static_cast<size_t>(rank);
      Stream stream = Stream::create(devices[r]).value();
      auto buffer = devices[r].allocate(kCount);
      ASSERT_TRUE(buffer.ok()) << buffer.status().toString();
      // A whole number of periods, so that every piece is the same but for its start.
      std::vector<int8_t> piece(static_cast<size_t>(kPiece + kPeriod));
      for (size_t i = 0; i < piece.size(); ++i) piece[i] = value(rank, static_cast<int64_t>(i));
      for (int64_t at = 0; at < kCount; at += kPiece)
        check(stream.copyToDevice(*buffer, piece.data() + at % kPeriod, std::min(kPiece, kCount - at), at));
      check((*comms)[r].allReduce(buffer->address(), buffer->address(), kCount, ElementType::kI8, ReduceOp::kSum,
                                  stream));
      check(stream.synchronize());
      std::vector<int8_t> expected(piece.size()), actual(static_cast<size_t>(kPiece));
      for (size_t i = 0; i < expected.size(); ++i)
        expected[i] = static_cast<int8_t>(value(0, static_cast<int64_t>(i)) + value(1, static_cast<int64_t>(i)));
      for (int64_t at = 0; at < kCount; at += kPiece) {
        const int64_t bytes = std::min(kPiece, kCount - at);
        check(stream.copyToHost(actual.data(), *buffer, bytes, at));
        check(stream.synchronize());
        ASSERT_EQ(std::memcmp(actual.data(), expected.data() + at % kPeriod, static_cast<size_t>(bytes)), 0)
            << "rank " << rank << ", the piece from byte " << at << " on";
      }
    });
}

}  // namespace
}  // namespace hpu::collectives::testing
