// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <thread>

#include "Suite.h"

namespace hpu::testing {
namespace {
using namespace collectives;

MessageTag tagOf(uint64_t n) {
  MessageTag tag;
  tag.sequence = n;
  tag.arrivalPs = static_cast<int64_t>(n * 1000003);
  tag.count = static_cast<int64_t>(n * 7) - 3;
  tag.type = static_cast<uint32_t>(n % 13);
  tag.flags = ~static_cast<uint32_t>(n);
  return tag;
}
void expectTag(const MessageTag& tag, uint64_t n) {
  MessageTag expected = tagOf(n);
  EXPECT_EQ(tag.sequence, expected.sequence);
  EXPECT_EQ(tag.arrivalPs, expected.arrivalPs);
  EXPECT_EQ(tag.count, expected.count);
  EXPECT_EQ(tag.type, expected.type);
  EXPECT_EQ(tag.flags, expected.flags);
}

/// Offers as soon as there is room.
Offered send(const Rank& rank, int peer, Lane lane, const std::byte* data, int64_t bytes, const MessageTag& tag) {
  Offered offered = Offered::kFull;
  rank.await("room in a lane", [&] {
    auto result = rank.t().offer(peer, lane, data, bytes, tag);
    EXPECT_TRUE(result.ok()) << result.status().message();
    if (result.ok()) offered = *result;
    return !result.ok() || offered != Offered::kFull;
  });
  return offered;
}
Arrived receive(const Rank& rank, int peer, Lane lane, uint64_t index) {
  std::optional<Arrived> arrived;
  rank.await("a message", [&] {
    arrived = rank.t().arrived(peer, lane, index);
    return arrived.has_value();
  });
  return arrived.value_or(Arrived{});
}

void order(Rank& rank) {
  // More messages than a lane holds, of all kinds of sizes, both ways at once.
  constexpr uint64_t kMessages = 400;
  const int peer = 1 - rank.rank();
  const int64_t small = rank.t().smallBytes();
  const int64_t sizes[] = {0, 1, 3, 8, 100, small - 1, small, small + 1, 2 * small + 5, 60000};
  auto sizeOf = [&](uint64_t n, int sender) {
    // The last one is shared: that a copied one was released is not told.
    if (n + 1 == kMessages) return sizes[std::size(sizes) - 1];
    return sizes[(n * 7 + static_cast<uint64_t>(sender)) % std::size(sizes)];
  };
  // A shared message keeps its part of the memory until it is released.
  constexpr int64_t kPart = 64 << 10;
  constexpr uint64_t kParts = kMemoryBytes / kPart;
  uint64_t sent = 0, received = 0;
  rank.await("the end of the exchange", [&] {
    while (sent < kMessages && sent < rank.t().released(peer, Lane::kCollective) + kParts) {
      int64_t bytes = sizeOf(sent, rank.rank());
      std::byte* data = rank.memory(static_cast<int64_t>(sent % kParts) * kPart, kPart);
      fillPattern(data, bytes, sent * 2 + static_cast<uint64_t>(rank.rank()));
      auto offered = rank.t().offer(peer, Lane::kCollective, data, bytes, tagOf(sent));
      EXPECT_TRUE(offered.ok()) << offered.status().message();
      if (!offered.ok()) return true;
      if (*offered == Offered::kFull) break;
      EXPECT_EQ(*offered, bytes <= small ? Offered::kCopied : Offered::kShared) << bytes;
      // Copied means that the memory is free.
      if (*offered == Offered::kCopied) fillPattern(data, bytes, 12345);
      ++sent;
    }
    while (auto arrived = rank.t().arrived(peer, Lane::kCollective, received)) {
      EXPECT_EQ(arrived->bytes, sizeOf(received, peer));
      expectTag(arrived->tag, received);
      EXPECT_TRUE(hasPattern(arrived->data, arrived->bytes, received * 2 + static_cast<uint64_t>(peer)))
          << "message " << received << " of " << arrived->bytes << " bytes";
      rank.t().release(peer, Lane::kCollective);
      EXPECT_FALSE(rank.t().arrived(peer, Lane::kCollective, received).has_value());
      ++received;
    }
    return sent == kMessages && received == kMessages &&
           rank.t().released(peer, Lane::kCollective) >= kMessages - kParts;
  });
  rank.await("the last releases", [&] { return rank.t().released(peer, Lane::kCollective) == kMessages; });
  rank.barrier();
}

void lookAhead(Rank& rank) {
  // Several messages are read before the first one is released, in any order.
  if (rank.rank() == 0) {
    for (uint64_t i = 0; i < 5; ++i) {
      std::byte* data = rank.memory(static_cast<int64_t>(i) << 16, 1 << 16);
      fillPattern(data, 50000, i);
      send(rank, 1, Lane::kCollective, data, i % 2 ? 50000 : 10, tagOf(i));
    }
  } else {
    for (uint64_t i : {4, 0, 3, 1, 2, 0}) {
      Arrived message = receive(rank, 0, Lane::kCollective, i);
      expectTag(message.tag, i);
      EXPECT_TRUE(hasPattern(message.data, i % 2 ? 50000 : 10, i));
    }
    EXPECT_FALSE(rank.t().arrived(0, Lane::kCollective, 5).has_value());
    EXPECT_FALSE(rank.t().arrived(0, Lane::kCollective, UINT64_MAX).has_value());
    for (int i = 0; i < 5; ++i) rank.t().release(0, Lane::kCollective);
    rank.t().release(0, Lane::kCollective);  // Of nothing: nothing.
  }
  rank.barrier();
  if (rank.rank() == 0) rank.await("the releases", [&] { return rank.t().released(1, Lane::kCollective) == 5; });
  rank.barrier();
}

void lanes(Rank& rank) {
  // A full lane does not hold up the others.
  if (rank.rank() == 0) {
    std::byte byte{7};
    uint64_t taken = 0;
    while (taken < 100000) {
      auto offered = rank.t().offer(1, Lane::kCollective, &byte, 1, tagOf(taken));
      ASSERT_TRUE(offered.ok());
      if (*offered == Offered::kFull) break;
      ++taken;
    }
    EXPECT_GE(taken, 2u);
    EXPECT_LT(taken, 100000u);
    for (Lane lane : {Lane::kPointToPoint, Lane::kReply}) {
      auto offered = rank.t().offer(1, lane, &byte, 1, tagOf(static_cast<uint64_t>(lane)));
      ASSERT_TRUE(offered.ok());
      EXPECT_EQ(*offered, Offered::kCopied);
    }
    rank.gather(std::to_string(taken));
    // The receiver makes room, and says so.
    EXPECT_EQ(send(rank, 1, Lane::kCollective, &byte, 1, tagOf(taken)), Offered::kCopied);
  } else {
    uint64_t taken = std::stoull(rank.gather("")[0]);
    for (Lane lane : {Lane::kReply, Lane::kPointToPoint}) {
      expectTag(receive(rank, 0, lane, 0).tag, static_cast<uint64_t>(lane));
      rank.t().release(0, lane);
    }
    for (uint64_t i = 0; i <= taken; ++i) {
      expectTag(receive(rank, 0, Lane::kCollective, i).tag, i);
      rank.t().release(0, Lane::kCollective);
    }
  }
  rank.barrier();
}

void zeroCopy(Rank& rank) {
  // A shared message is the sender's memory: released is when it may change.
  constexpr int64_t kBytes = 1 << 20;
  if (rank.rank() == 0) {
    std::byte* data = rank.memory(4096, kBytes);
    fillPattern(data, kBytes, 1);
    EXPECT_EQ(send(rank, 1, Lane::kCollective, data, kBytes, {}), Offered::kShared);
    EXPECT_EQ(rank.t().released(1, Lane::kCollective), 0u);
    rank.barrier();
    rank.await("the release", [&] { return rank.t().released(1, Lane::kCollective) == 1; });
    // Again from a place that was written only after the peer has looked at the memory around it.
    fillPattern(data + kBytes, kBytes, 2);
    EXPECT_EQ(send(rank, 1, Lane::kCollective, data + kBytes, kBytes, {}), Offered::kShared);
    rank.await("the release", [&] { return rank.t().released(1, Lane::kCollective) == 2; });
  } else {
    // Who does not look does not make bytes move.
    rank.barrier();
    Arrived message = receive(rank, 0, Lane::kCollective, 0);
    EXPECT_EQ(message.bytes, kBytes);
    EXPECT_TRUE(hasPattern(message.data, kBytes, 1));
    rank.t().release(0, Lane::kCollective);
    message = receive(rank, 0, Lane::kCollective, 1);
    EXPECT_TRUE(hasPattern(message.data, kBytes, 2));
    rank.t().release(0, Lane::kCollective);
  }
  rank.barrier();
}

void badArguments(Rank& rank) {
  const int peer = 1 - rank.rank();
  const int64_t tooMuch = rank.t().smallBytes() + 1;
  std::vector<std::byte> host(static_cast<size_t>(tooMuch));
  auto codeOf = [&](int to, const std::byte* data, int64_t bytes) {
    return rank.t().offer(to, Lane::kCollective, data, bytes, {}).status().code();
  };
  EXPECT_EQ(codeOf(peer, host.data(), tooMuch), StatusCode::kInvalidArgument);
  EXPECT_EQ(codeOf(rank.rank(), host.data(), 1), StatusCode::kInvalidArgument);
  EXPECT_EQ(codeOf(-1, host.data(), 1), StatusCode::kInvalidArgument);
  EXPECT_EQ(codeOf(rank.ranks(), host.data(), 1), StatusCode::kInvalidArgument);
  EXPECT_EQ(codeOf(peer, host.data(), -1), StatusCode::kInvalidArgument);
  EXPECT_EQ(codeOf(peer, nullptr, 1), StatusCode::kInvalidArgument);
  // Beyond the memory's end.
  std::byte* last = rank.memory(rank.bytes - tooMuch, tooMuch);
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(codeOf(peer, last + 1, tooMuch), StatusCode::kInvalidArgument);
  EXPECT_EQ(codeOf(peer, last, INT64_MAX), StatusCode::kInvalidArgument);
  EXPECT_EQ(rank.memory(rank.bytes - tooMuch + 1, tooMuch), nullptr);
  EXPECT_EQ(rank.t().local(rank.address - 1, 1), nullptr);
  EXPECT_EQ(rank.t().local(rank.address, -1), nullptr);
  EXPECT_EQ(rank.t().local(0, 1), nullptr);
  EXPECT_EQ(rank.t().local(UINT64_MAX, 2), nullptr);
  // None of it was taken; the memory's last byte can be.
  EXPECT_EQ(send(rank, peer, Lane::kCollective, last, tooMuch, tagOf(9)), Offered::kShared);
  EXPECT_EQ(send(rank, peer, Lane::kCollective, nullptr, 0, tagOf(10)), Offered::kCopied);
  expectTag(receive(rank, peer, Lane::kCollective, 0).tag, 9);
  EXPECT_EQ(receive(rank, peer, Lane::kCollective, 0).bytes, tooMuch);
  expectTag(receive(rank, peer, Lane::kCollective, 1).tag, 10);
  rank.t().release(peer, Lane::kCollective);
  rank.t().release(peer, Lane::kCollective);
  rank.barrier();
}

void traffic(Rank& rank) {
  // Everybody to everybody on all lanes at random; each sender's messages tell what must be in
  // them.
  constexpr uint64_t kMessages = 300;
  constexpr int64_t kSlot = 16 << 10;
  struct Out {
    uint64_t sent = 0;
    bool full = false;                                // Since the last look at what has changed.
    std::deque<std::pair<uint64_t, int64_t>> shared;  // Message, offset of its memory.
  };
  std::map<std::pair<int, int>, Out> out;
  std::map<std::pair<int, int>, uint64_t> in;
  std::vector<int64_t> free;
  for (int64_t offset = 0; offset + kSlot <= kMemoryBytes; offset += kSlot) free.push_back(offset);
  std::mt19937_64 random(static_cast<uint64_t>(rank.rank()) + 99);
  auto seedOf = [](int from, int to, int lane, uint64_t n) {
    return n * 1000 + static_cast<uint64_t>(from * 100 + to * 10 + lane);
  };
  const uint64_t flows = static_cast<uint64_t>(rank.ranks() - 1) * kNumLanes;
  uint64_t sent = 0, received = 0;
  rank.await("the end of the traffic", [&] {
    for (auto& entry : out) entry.second.full = false;
    bool moved = true;
    while (moved) {
      moved = false;
      for (int peer = 0; peer < rank.ranks(); ++peer) {
        if (peer == rank.rank()) continue;
        for (int l = 0; l < kNumLanes; ++l) {
          auto lane = static_cast<Lane>(l);
          Out& flow = out[{peer, l}];
          while (!flow.shared.empty() && flow.shared.front().first < rank.t().released(peer, lane)) {
            free.push_back(flow.shared.front().second);
            flow.shared.pop_front();
          }
          if (flow.sent < kMessages && !free.empty() && random() % 3) {
            int64_t bytes = static_cast<int64_t>(random() % kSlot);
            if (random() % 2) bytes %= 64;
            std::byte* data = rank.memory(free.back(), kSlot);
            fillPattern(data, bytes, seedOf(rank.rank(), peer, l, flow.sent));
            auto offered = rank.t().offer(peer, lane, data, bytes, tagOf(flow.sent));
            EXPECT_TRUE(offered.ok()) << offered.status().message();
            if (!offered.ok()) return true;
            if (*offered == Offered::kShared) {
              flow.shared.emplace_back(flow.sent, free.back());
              free.pop_back();
            }
            flow.full = *offered == Offered::kFull;
            if (!flow.full) {
              ++flow.sent, ++sent;
              moved = true;
            }
          }
          uint64_t& next = in[{peer, l}];
          for (uint64_t many = random() % 4; many > 0; --many) {
            auto arrived = rank.t().arrived(peer, lane, next);
            if (!arrived) break;
            expectTag(arrived->tag, next);
            EXPECT_TRUE(hasPattern(arrived->data, arrived->bytes, seedOf(peer, rank.rank(), l, next)))
                << "message " << next << " from " << peer << " lane " << l;
            rank.t().release(peer, lane);
            ++next, ++received;
            moved = true;
          }
        }
      }
      if (!moved && (sent < flows * kMessages || received < flows * kMessages)) {
        // What random choices passed over is no reason to sleep.
        for (int peer = 0; peer < rank.ranks(); ++peer)
          for (int l = 0; l < kNumLanes && peer != rank.rank(); ++l) {
            const Out& flow = out[{peer, l}];
            moved |= rank.t().arrived(peer, static_cast<Lane>(l), in[{peer, l}]).has_value() ||
                     (flow.sent < kMessages && !free.empty() && !flow.full);
          }
      }
    }
    return sent == flows * kMessages && received == flows * kMessages;
  });
  EXPECT_EQ(received, flows * kMessages);
  rank.barrier();
}

// ---- Receives with their destination ----

constexpr int64_t kExpectSlot = 64 << 10;
std::byte* slotOf(const Rank& rank, uint64_t i) {
  return rank.memory(static_cast<int64_t>(i % (kMemoryBytes / kExpectSlot)) * kExpectSlot, kExpectSlot);
}
/// Of message `i`: none, small and large ones.
int64_t expectedBytes(const Rank& rank, uint64_t i) {
  const int64_t small = rank.t().smallBytes();
  const int64_t sizes[] = {0, 1, small, small + 1, 50000};
  return sizes[i % std::size(sizes)];
}
/// What comes is where it was expected, where bytes have to be moved.
void expectMessage(const Rank& rank, uint64_t i) {
  Arrived message = receive(rank, 0, Lane::kCollective, i);
  expectTag(message.tag, i);
  const int64_t bytes = expectedBytes(rank, i);
  EXPECT_EQ(message.bytes, bytes);
  if (bytes == 0) return;
  ASSERT_NE(message.data, nullptr) << "message " << i;
  EXPECT_TRUE(hasPattern(message.data, bytes, i)) << "message " << i;
  if (rank.t().name() == "net") {
    EXPECT_EQ(message.data, slotOf(rank, i));
  }
}
void offerPattern(const Rank& rank, uint64_t i, int64_t bytes) {
  std::byte* data = bytes > 0 ? slotOf(rank, i) : nullptr;
  if (data) fillPattern(data, bytes, i);
  send(rank, 1, Lane::kCollective, data, bytes, tagOf(i));
}
void awaitReleased(const Rank& rank, uint64_t count) {
  rank.await("the releases", [&] { return rank.t().released(1, Lane::kCollective) >= count; });
}

void expects(Rank& rank, bool before) {
  constexpr uint64_t kMessages = 10;  // A lane holds them.
  auto expectAll = [&] {
    for (uint64_t i = 0; i < kMessages; ++i) {
      const int64_t bytes = expectedBytes(rank, i);
      rank.t().expect(0, Lane::kCollective, i, bytes > 0 ? slotOf(rank, i) : nullptr, bytes);
    }
  };
  if (rank.rank() == 0) {
    if (before) rank.barrier();
    for (uint64_t i = 0; i < kMessages; ++i) offerPattern(rank, i, expectedBytes(rank, i));
    if (!before) rank.barrier();
    awaitReleased(rank, kMessages);
  } else {
    if (before) expectAll();
    rank.barrier();
    if (!before) {
      // They have been heard of.
      rank.await("the last message", [&] { return rank.t().arrived(0, Lane::kCollective, kMessages - 1).has_value(); });
      expectAll();
    }
    for (uint64_t i = 0; i < kMessages; ++i) {
      expectMessage(rank, i);
      rank.t().release(0, Lane::kCollective);
    }
  }
  rank.barrier();
}
void expectsBefore(Rank& rank) {
  expects(rank, true);
}
void expectsAfter(Rank& rank) {
  expects(rank, false);
}

void expectsSome(Rank& rank) {
  // Not each message is expected, and one that was may be released before all of it was looked at.
  constexpr uint64_t kMessages = 20;
  if (rank.rank() == 0) {
    for (uint64_t i = 0; i < kMessages; ++i) offerPattern(rank, i, 50000);
    awaitReleased(rank, kMessages);
  } else {
    for (uint64_t i = 1; i < kMessages; i += 3) rank.t().expect(0, Lane::kCollective, i, slotOf(rank, i), 50000);
    for (uint64_t i = 0; i < kMessages; ++i) {
      Arrived message = receive(rank, 0, Lane::kCollective, i);
      ASSERT_NE(message.data, nullptr);
      EXPECT_TRUE(hasPattern(message.data, 50000, i)) << "message " << i;
      rank.t().release(0, Lane::kCollective);
    }
  }
  rank.barrier();
}

void expectsWrong(Rank& rank) {
  // Of another size than what comes: said before or after it, for large and small ones. The others are not disturbed.
  const int64_t small = rank.t().smallBytes();
  const int64_t pairs[][2] = {{50000, 40000},     {40000, 50000}, {small, 50000}, {50000, small},
                              {small, small - 1}, {0, 50000},     {50000, 0},     {0, small}};
  const uint64_t count = std::size(pairs);
  if (rank.rank() == 0) {
    for (uint64_t i = 0; i < 3 * count; ++i) {
      if (i == count) {
        rank.barrier();
        rank.barrier();
      }
      offerPattern(rank, i, pairs[i % count][1]);
    }
    rank.barrier();
    awaitReleased(rank, 3 * count);
  } else {
    auto expectWrong = [&](uint64_t i) {
      const int64_t bytes = pairs[i % count][0];
      rank.t().expect(0, Lane::kCollective, i, bytes ? slotOf(rank, i) : nullptr, bytes);
    };
    auto take = [&](uint64_t i) {
      const int64_t bytes = pairs[i % count][1];
      Arrived message = receive(rank, 0, Lane::kCollective, i);
      if (message.data) {
        EXPECT_EQ(message.bytes, bytes);
        EXPECT_TRUE(hasPattern(message.data, bytes, i)) << "message " << i;
        EXPECT_TRUE(i >= 2 * count || rank.t().name() != "net") << "message " << i;
      }
      rank.t().release(0, Lane::kCollective);
    };
    // After: the last one has come, and so has word of all before it.
    rank.barrier();
    rank.await("word", [&] { return rank.t().arrived(0, Lane::kCollective, count - 1).has_value(); });
    for (uint64_t i = 0; i < 2 * count; ++i) expectWrong(i);
    rank.barrier();
    for (uint64_t i = 0; i < 3 * count; ++i) take(i);
    rank.barrier();
  }
  rank.barrier();
}

void expectsMany(Rank& rank) {
  // More than a lane holds, each in its turn.
  constexpr uint64_t kMessages = 300;
  constexpr int64_t kBytes = 8 << 10;
  auto part = [&](uint64_t i) { return rank.memory(static_cast<int64_t>(i) * kBytes, kBytes); };
  if (rank.rank() == 0) {
    for (uint64_t i = 0; i < kMessages; ++i) {
      fillPattern(part(i), kBytes, i);
      send(rank, 1, Lane::kCollective, part(i), kBytes, tagOf(i));
    }
    awaitReleased(rank, kMessages);
  } else {
    for (uint64_t i = 0; i < kMessages; ++i) rank.t().expect(0, Lane::kCollective, i, part(i), kBytes);
    for (uint64_t i = 0; i < kMessages; ++i) {
      Arrived message = receive(rank, 0, Lane::kCollective, i);
      ASSERT_NE(message.data, nullptr);
      EXPECT_TRUE(hasPattern(message.data, kBytes, i)) << "message " << i;
      rank.t().release(0, Lane::kCollective);
    }
  }
  rank.barrier();
}

/// One of them gives up while data is under way. From then on its memory is its own: what it writes there stays, and
/// is never seen by the other one.
void expectsAndAborts(Rank& rank, int who) {
  constexpr int64_t kBytes = 1 << 20;
  constexpr uint64_t kMessages = 4;
  auto part = [&](uint64_t i) { return rank.memory(static_cast<int64_t>(i) * kBytes, kBytes); };
  if (rank.rank() == 0) {
    for (uint64_t i = 0; i < kMessages; ++i) fillPattern(part(i), kBytes, i);
    for (uint64_t i = 0; i < kMessages; ++i) {
      auto offered = rank.t().offer(1, Lane::kCollective, part(i), kBytes, tagOf(i));
      const bool late = who == 1 && offered.status().code() == StatusCode::kAborted;
      EXPECT_TRUE(late || (offered.ok() && *offered == Offered::kShared)) << offered.status().message();
    }
  } else {
    for (uint64_t i = 0; i < kMessages; ++i) rank.t().expect(0, Lane::kCollective, i, part(i), kBytes);
    rank.await("the first message", [&] { return rank.t().arrived(0, Lane::kCollective, 0).has_value(); });
  }
  if (rank.rank() == who) {
    if (who == 0)
      rank.await("the first message's end",
                 [&] { return rank.t().name() != "net" || rank.t().released(1, Lane::kCollective) >= 1; });
    rank.t().abort(internalError("enough"));
    for (uint64_t i = 0; i < kMessages; ++i) std::fill(part(i), part(i) + kBytes, std::byte{0xee});
  } else {
    rank.await("the end", [&] { return !rank.t().peerStatus(who).ok(); });
    expectTag(rank.rank() == 1 ? receive(rank, 0, Lane::kCollective, 0).tag : tagOf(0), 0);
  }
  rank.barrier();
  // What was under way has come by now, or never will.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (rank.rank() == who) {
    for (uint64_t i = 0; i < kMessages; ++i)
      EXPECT_TRUE(std::all_of(part(i), part(i) + kBytes, [](std::byte b) { return b == std::byte{0xee}; }));
  } else if (rank.rank() == 1 && rank.t().name() == "net") {
    for (uint64_t i = 0; i < kMessages; ++i) {
      const auto message = rank.t().arrived(0, Lane::kCollective, i);
      EXPECT_TRUE(!message || !message->data || hasPattern(message->data, kBytes, i)) << "message " << i;
    }
  }
  rank.barrier();
}
void receiverAborts(Rank& rank) {
  expectsAndAborts(rank, 1);
}
void senderAborts(Rank& rank) {
  expectsAndAborts(rank, 0);
}

}  // namespace

const std::vector<Case>& messageCases() {
  static const std::vector<Case> cases = {
      {"order", 2, order},
      {"lookAhead", 2, lookAhead},
      {"lanes", 2, lanes},
      {"zeroCopy", 2, zeroCopy},
      {"badArguments", 2, badArguments},
      {"traffic", 2, traffic},
      {"trafficOf4", 4, traffic},
      {"expectsBefore", 2, expectsBefore},
      {"expectsAfter", 2, expectsAfter},
      {"expectsSome", 2, expectsSome},
      {"expectsWrong", 2, expectsWrong},
      {"expectsMany", 2, expectsMany},
      {"receiverAborts", 2, receiverAborts},
      {"senderAborts", 2, senderAborts},
  };
  return cases;
}

}  // namespace hpu::testing
