// SPDX-License-Identifier: Apache-2.0
// Two queue pairs in virtual time, and a wire between them that loses, doubles, changes and delays datagrams.
// The one thing to know: everything but the keys follows from the arguments; no clock and no thread.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "collectives/roce/Icrc.h"
#include "collectives/roce/QueuePair.h"

namespace hpu::roce {

using Datagram = std::vector<uint8_t>;

/// What becomes of the wire's `index`th datagram of one direction: those that arrive, and how much later.
using Wire = std::function<std::vector<std::pair<TimeNs, Datagram>>(int from, size_t index, const Datagram&)>;

inline constexpr TimeNs kFlightNs = 2'000;

class Lab {
 public:
  struct Side {
    MemoryTable table;
    std::vector<std::byte> memory = std::vector<std::byte>(1 << 17);
    uint32_t key = 0;
    uint64_t address = 0;
    std::unique_ptr<QueuePair> pair;
    std::vector<Completion> requests, receives;
    size_t sent = 0;
  };

  explicit Lab(QueuePairOptions options, Wire wire = nullptr, uint32_t firstPsn = 0xFFFFFA) : wire_(std::move(wire)) {
    for (int i = 0; i < 2; ++i) {
      Side& side = sides[i];
      side.address = 0x100000000 * static_cast<uint64_t>(i + 1);
      side.key = *side.table.add(side.memory.data(), side.address, side.memory.size(), {true, true, true});
      QueuePairOptions own = options;
      own.number = 0x11 + static_cast<uint32_t>(i);
      own.firstPsn = psnAdd(firstPsn, 1000 * i);
      const Peer peer{0x12 - static_cast<uint32_t>(i), psnAdd(firstPsn, 1000 * (1 - i))};
      EXPECT_TRUE(QueuePair::check(own, peer).ok());
      side.pair = std::make_unique<QueuePair>(own, peer, side.table);
    }
    route_.sourcePort = 0xC000;
  }

  /// Until nothing is to be sent or waited for, or so much later.
  void run(TimeNs until = TimeNs{60} * 1'000'000'000) {
    until += now;
    while (true) {
      for (int i = 0; i < 2; ++i) advance(i);
      std::optional<TimeNs> next;
      if (!flights_.empty()) next = flights_.begin()->first.first;
      for (const Side& side : sides)
        if (auto time = side.pair->nextTime(); time && (!next || *time < *next)) next = time;
      if (!next || *next > until) break;
      now = std::max(now, *next);
      while (!flights_.empty() && flights_.begin()->first.first <= now) {
        auto [to, datagram] = std::move(flights_.begin()->second);
        flights_.erase(flights_.begin());
        arrive(to, datagram);
      }
    }
  }

  void arrive(int to, const Datagram& datagram) {
    Packet packet;
    if (!checkIcrc(route_, datagram) || parse(datagram, packet) != Malformed::kNo) return;
    sides[to].pair->receive(packet, now);
    take(to);
  }

  Side sides[2];
  TimeNs now = 0;

 private:
  void advance(int from) {
    Side& side = sides[from];
    side.pair->advance(now, [&](const Packet& packet) {
      Datagram datagram(datagramBytes(packet));
      encode(packet, datagram);
      sealIcrc(route_, datagram);
      const size_t index = side.sent++;
      if (!wire_) {
        fly(1 - from, 0, datagram);
      } else {
        for (auto& [later, changed] : wire_(from, index, datagram)) fly(1 - from, later, changed);
      }
      return true;
    });
    take(from);
  }
  void fly(int to, TimeNs later, Datagram datagram) {
    flights_.emplace(std::pair(now + kFlightNs + later, ++flown_), std::pair(to, std::move(datagram)));
  }
  void take(int i) {
    while (auto completion = sides[i].pair->poll())
      (completion->isReceive ? sides[i].receives : sides[i].requests).push_back(*completion);
  }

  Wire wire_;
  Route route_;
  std::map<std::pair<TimeNs, uint64_t>, std::pair<int, Datagram>> flights_;
  uint64_t flown_ = 0;
};

inline void fill(std::span<std::byte> memory, uint32_t seed) {
  std::mt19937 random(seed);
  for (std::byte& byte : memory) byte = static_cast<std::byte>(random());
}

}  // namespace hpu::roce
