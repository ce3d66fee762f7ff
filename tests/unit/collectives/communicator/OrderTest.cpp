// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/Order.h"

#include <gtest/gtest.h>

#include "collectives/communicator/Gate.h"
#include "tests/unit/collectives/communicator/World.h"

namespace hpu::collectives {
namespace {

TEST(Gate, BeginsInOrderWhicheverComesFirst) {
  Gate gate;
  std::vector<int> begun;
  auto arrive = [&](uint64_t order, std::function<void()> begin) {
    Gate::Place place;
    place.push_back({order, std::move(begin), nullptr});
    gate.arrive(std::move(place));
  };
  arrive(2, [&] { begun.push_back(2); });
  arrive(1, [&] { begun.push_back(1); });
  EXPECT_TRUE(begun.empty());
  arrive(0, [&] {
    begun.push_back(0);
    arrive(3, [&] { begun.push_back(3); });  // From within one.
    EXPECT_EQ(begun.size(), 1u);
  });
  EXPECT_EQ(begun, (std::vector<int>{0, 1, 2, 3}));
}

TEST(AddressOrder, FindsTheLastOverlapOfEachOtherStream) {
  Device device = World::openDevices(1)[0];
  std::vector<Stream> streams;
  for (int i = 0; i < 3; ++i) streams.push_back(Stream::create(device).value());
  AddressOrder order;
  bool several = false;
  auto add = [&](int stream, uint64_t begin, uint64_t end, bool write) {
    auto operation = std::make_shared<Enqueued>(streams[static_cast<size_t>(stream)], static_cast<uint64_t>(stream));
    several = order.add({{begin, end, write}}, operation);
    return operation;
  };
  auto conflicts = [&](int stream, uint64_t begin, uint64_t end, bool write) {
    return order.conflicts({{begin, end, write}}, streams[static_cast<size_t>(stream)].state().get(), 9);
  };
  using List = std::vector<std::shared_ptr<Enqueued>>;
  add(0, 100, 200, true);
  auto later = add(0, 150, 250, true);
  add(0, 400, 500, true);
  EXPECT_FALSE(several);
  auto reader = add(1, 180, 190, false);
  EXPECT_TRUE(several);
  EXPECT_EQ(conflicts(0, 150, 160, false), List{});       // Its own stream; reads only.
  EXPECT_EQ(conflicts(1, 150, 160, false), List{later});  // The last one covers the first.
  EXPECT_EQ(conflicts(2, 250, 400, true), List{});        // Between them.
  EXPECT_EQ(conflicts(2, 185, 186, false), List{later});  // Two reads are no conflict.
  EXPECT_EQ(conflicts(2, 185, 186, true).size(), 2u);
  EXPECT_EQ(conflicts(0, 185, 186, true), List{reader});
  EXPECT_TRUE(order.conflicts({{185, 186, false}}, streams[2].state().get(), 0).empty());
  // Of many, the oldest become one that is too large rather than forgotten.
  for (uint64_t i = 0; i < 500; ++i) add(0, 10000 + 10 * i, 10001 + 10 * i, true);
  EXPECT_EQ(conflicts(1, 100, 101, false).size(), 1u);
}

}  // namespace
}  // namespace hpu::collectives
