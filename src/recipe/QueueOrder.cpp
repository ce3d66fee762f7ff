// SPDX-License-Identifier: Apache-2.0
#include "recipe/QueueOrder.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "base/Format.h"
#include "recipe/VerifierParts.h"

namespace hpu::recipe {

namespace {

/// A queue whose head waits for a signal to reach a value.
struct Waiter {
  uint32_t value = 0, queue = 0;
  bool operator>(const Waiter& other) const { return value > other.value; }
};
using WaiterHeap = std::priority_queue<Waiter, std::vector<Waiter>, std::greater<>>;

}  // namespace

StatusOr<std::vector<CommandRef>> completionOrder(const Program& program) {
  std::vector<uint32_t> counts(program.numSignals, 0);
  std::vector<WaiterHeap> waiters(program.numSignals);
  std::vector<uint32_t> heads(program.queues.size(), 0);
  std::vector<uint32_t> ready;
  size_t total = 0;
  for (uint32_t q = 0; q < program.queues.size(); ++q) {
    total += program.queues[q].commands.size();
    ready.push_back(static_cast<uint32_t>(program.queues.size()) - 1 - q);
  }
  std::vector<CommandRef> order;
  order.reserve(total);
  while (!ready.empty()) {
    uint32_t q = ready.back();
    ready.pop_back();
    const std::vector<Command>& commands = program.queues[q].commands;
    bool blocked = false;
    while (!blocked && heads[q] < commands.size()) {
      const Command& command = commands[heads[q]];
      for (const Wait& wait : command.waits) {
        if (counts[wait.signal] < wait.value) {
          waiters[wait.signal].push({wait.value, q});
          blocked = true;
          break;
        }
      }
      if (blocked) break;
      order.push_back({q, heads[q]++});
      if (command.signal == kNone) continue;
      uint32_t count = ++counts[command.signal];
      WaiterHeap& heap = waiters[command.signal];
      for (; !heap.empty() && heap.top().value <= count; heap.pop()) ready.push_back(heap.top().queue);
    }
  }
  if (order.size() == total) return order;
  for (uint32_t q = 0; q < program.queues.size(); ++q) {
    if (heads[q] == program.queues[q].commands.size()) continue;
    const Command& command = program.queues[q].commands[heads[q]];
    for (const Wait& wait : command.waits) {
      if (counts[wait.signal] >= wait.value) continue;
      return dataLoss(base::strCat("the queues deadlock: ", commandText(program, q, heads[q]), ", of ",
                                   opText(program, command.op), ", waits for signal ", wait.signal, " to reach ",
                                   wait.value, ", which stops at ", counts[wait.signal]));
    }
  }
  return internalError("a queue stopped without a wait that holds it");
}

}  // namespace hpu::recipe
