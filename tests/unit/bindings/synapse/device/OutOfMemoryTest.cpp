// SPDX-License-Identifier: Apache-2.0
// Every allocation of an enqueue by the C API fails once: a status of the host's memory, and the stream goes on.
#include <functional>

#include "tests/unit/bindings/synapse/DeviceFixture.h"
#include "tests/unit/runtime/FailingNew.h"

namespace synapse_test {
namespace {

using OutOfMemory = SynapseTest;

TEST_F(OutOfMemory, EnqueuesSayThatTheHostHasNoMemory) {
  uint64_t from = allocate(256), to = allocate(256);
  synEventHandle event = nullptr;
  synStreamHandle other = nullptr;
  ASSERT_SYN(synEventCreate(&event, device, 0));
  ASSERT_SYN(synStreamCreateGeneric(&other, device, 0));
  const std::vector<std::function<synStatus()>> calls = {
      [&] { return synMemsetD8Async(from, 9, 256, stream); },
      [&] { return synMemCopyAsync(stream, from, 256, to, DRAM_TO_DRAM); },
      [&] { return synEventRecord(event, stream); },
      [&] { return synStreamWaitEvent(other, event, 0); },
  };
  int failures = 0;
  for (size_t c = 0; c < calls.size(); ++c) {
    SCOPED_TRACE(c);
    failures += hpu::testing::failEachAllocation(
        [&] { return [&] { return calls[c](); }; },
        [&](synStatus status) { EXPECT_EQ(status, synOutOfHostMemory) << hpuSynLastError(); });
  }
  EXPECT_GT(failures, 8);
  EXPECT_SYN(synStreamSynchronize(other));
  EXPECT_EQ(download(to, 256), std::vector<uint8_t>(256, 9));
}

}  // namespace
}  // namespace synapse_test
