// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/clock/TimeNode.h"

namespace hpu::driver {
namespace {

void see(SeenQueue& queue, Ticket upTo) {
  Ticket before = queue.upTo.load();
  while (before < upTo && !queue.upTo.compare_exchange_weak(before, upTo)) {
  }
}

}  // namespace

bool unseen(const TimeNode& node) {
  return node.dependence && node.ticket > node.dependence->queue->upTo.load();
}

void see(const TimeNode& node) {
  if (!node.dependence) return;
  see(*node.dependence->queue, node.ticket);
  for (const auto& [queue, upTo] : node.dependence->others) see(*queue, upTo);
}

}  // namespace hpu::driver
