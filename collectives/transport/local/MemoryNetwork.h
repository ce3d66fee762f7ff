// SPDX-License-Identifier: Apache-2.0
// MemoryNetwork: links between threads of one process, with queues so short that refusals are common. What tests of the
// transport between nodes run on: its links can be cut, and its members killed and held.
//
//   auto wires = MemoryWires::create();
//   std::shared_ptr<net::Network> a = wires->join(), b = wires->join();
//   wires->cut(*a, *b);
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "collectives/transport/net/Network.h"

namespace hpu::collectives {

struct MemoryWiresOptions {
  size_t frames = 4;              ///< On their way from one end of a link to the other one; more are refused.
  int64_t pieceBytes = 32 << 10;  ///< Data goes in pieces; a window can close between them.
  /// Flips a bit in the data of every so manyth write, as no network may; 0: never.
  int64_t corruptEvery = 0;
};

/// Any thread may call anything.
class MemoryWires {
 public:
  static std::shared_ptr<MemoryWires> create(MemoryWiresOptions options = {});
  virtual ~MemoryWires() = default;
  /// A network as of a process of its own, with its own progress thread.
  virtual std::shared_ptr<net::Network> join() = 0;
  /// All links between the two break now, and none are made any more.
  virtual void cut(const net::Network& a, const net::Network& b) = 0;
  /// Links between the two can be made again.
  virtual void heal(const net::Network& a, const net::Network& b) = 0;
  /// As if the process had been killed: the others' links to it break, and it hears nothing.
  virtual void kill(const net::Network& network) = 0;
  /// As if the process had been stopped: nothing that comes is looked at, and nothing goes out, until it goes on.
  virtual void hold(const net::Network& network, bool held) = 0;
};

}  // namespace hpu::collectives
