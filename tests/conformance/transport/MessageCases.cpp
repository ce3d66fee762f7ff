// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>

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
  rank.barrier();
  EXPECT_EQ(rank.t().released(peer, Lane::kCollective), kMessages);
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
  if (rank.rank() == 0) {
    EXPECT_EQ(rank.t().released(1, Lane::kCollective), 5u);
  }
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
    Arrived message = receive(rank, 0, Lane::kCollective, 0);
    rank.barrier();
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

}  // namespace

const std::vector<Case>& messageCases() {
  static const std::vector<Case> cases = {
      {"order", 2, order},        {"lookAhead", 2, lookAhead},       {"lanes", 2, lanes},
      {"zeroCopy", 2, zeroCopy},  {"badArguments", 2, badArguments}, {"traffic", 2, traffic},
      {"trafficOf4", 4, traffic},
  };
  return cases;
}

}  // namespace hpu::testing
