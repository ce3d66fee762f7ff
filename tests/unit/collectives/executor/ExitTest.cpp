// SPDX-License-Identifier: Apache-2.0
// A static that outlives main's thread-local objects still ends operations. A program of its own;
// what is wrong is found by AddressSanitizer.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "collectives/executor/Executor.h"
#include "collectives/transport/local/LocalTransport.h"

namespace {

using namespace hpu;
using namespace hpu::collectives;

/// A rank alone, and a copy from its memory to its memory.
struct Rank {
  std::vector<std::byte> memory{1024};
  std::shared_ptr<Executor> executor;

  void open() {
    auto group = LocalGroup::create({{memory.data(), 0x1000, 1024}});
    executor = Executor::create(group->transport(0), "rank 0");
  }
  bool copy() const {
    TransferOperation operation;
    operation.transfers = {{true, 0, 0x1000, 8, ElementType::kI8}, {false, 0, 0x1100, 8, ElementType::kI8}};
    bool ended = false;
    // Done by this thread, before it returns.
    executor->begin(std::move(operation), [&](OperationResult result) { ended = result.status.ok(); });
    return ended;
  }
  ~Rank() {
    if (executor && copy()) return;
    std::fprintf(stderr, "no copy in a destructor\n");
    ::_exit(1);
  }
};
Rank rank;

}  // namespace

int main() {
  rank.open();
  return rank.copy() ? 0 : 1;
}
