// SPDX-License-Identifier: Apache-2.0
#include "collectives/fabric/RankMap.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace hpu::collectives {
namespace {

TEST(RankMap, OfAllDevicesCountsNodeByNode) {
  const Fabric fabric = standardFabric(Target::kGaudi3, 3);
  const auto map = RankMap::all(fabric);
  ASSERT_TRUE(map.ok());
  EXPECT_EQ(map->ranks(), 24);
  EXPECT_EQ(map->nodes(), 3);
  EXPECT_EQ(map->ranksPerNode(), 8);
  for (int32_t rank = 0; rank < 24; ++rank) {
    EXPECT_EQ(map->place(rank), (Place{rank / 8, rank % 8}));
    EXPECT_EQ(map->position(rank), (Position{rank / 8, rank % 8}));
    EXPECT_EQ(map->rankAt(rank / 8, rank % 8), rank);
  }
}

TEST(RankMap, GivesPositionsAmongThePlacesThatAreUsed) {
  const Fabric fabric = standardFabric(Target::kGaudi2, 8);
  // Nodes 2, 5 and 7, with gaps, 3, 1 and 2 ranks, in any order.
  const std::vector<Place> places = {{7, 6}, {2, 5}, {5, 3}, {2, 0}, {7, 1}, {2, 7}};
  const auto map = RankMap::create(fabric, places);
  ASSERT_TRUE(map.ok());
  EXPECT_EQ(map->nodes(), 3);
  EXPECT_EQ(map->ranksPerNode(), 0);
  const std::vector<Position> expected = {{2, 1}, {0, 1}, {1, 0}, {0, 0}, {2, 0}, {0, 2}};
  for (int32_t rank = 0; rank < map->ranks(); ++rank) {
    const Position position = map->position(rank);
    EXPECT_EQ(position, expected[static_cast<size_t>(rank)]) << rank;
    EXPECT_EQ(map->rankAt(position.node, position.local), rank);
    EXPECT_EQ(map->place(rank), places[static_cast<size_t>(rank)]);
  }
}

TEST(RankMap, LeavesOutDevicesThatAreNotThere) {
  Fabric fabric = standardFabric(Target::kGaudi2, 2);
  fabric.exceptions = {{1, 1, {}, {0, 2, 6}}};
  const auto map = RankMap::all(fabric);
  ASSERT_TRUE(map.ok());
  EXPECT_EQ(map->ranks(), 11);
  EXPECT_EQ(map->ranksPerNode(), 0);
  EXPECT_EQ(map->place(9), (Place{1, 2}));
  EXPECT_EQ(map->position(9), (Position{1, 1}));
}

std::string errorOf(const Fabric& fabric, std::vector<Place> places) {
  const auto map = RankMap::create(fabric, std::move(places));
  if (map.ok()) return "";
  EXPECT_EQ(map.status().code(), StatusCode::kInvalidArgument);
  return std::string(map.status().message());
}

TEST(RankMap, RefusesPlacesThatAreNotThereByTheRank) {
  Fabric fabric = standardFabric(Target::kGaudi2, 2);
  EXPECT_EQ(errorOf(fabric, {}), "there are no ranks");
  EXPECT_EQ(errorOf(fabric, {{0, 0}, {2, 0}}), "rank 1 is on node 2; 'hls-2' has nodes 0 to 1");
  EXPECT_EQ(errorOf(fabric, {{-1, 0}}), "rank 0 is on node -1; 'hls-2' has nodes 0 to 1");
  EXPECT_EQ(errorOf(fabric, {{1, 8}}), "rank 0 is on device 8 of node 1; 'hls-2' has devices 0 to 7");
  EXPECT_EQ(errorOf(fabric, {{0, 3}, {1, 1}, {0, 3}}), "ranks 0 and 2 are both on device 3 of node 0");
  fabric.exceptions = {{1, 1, {}, {0, 2}}};
  EXPECT_EQ(errorOf(fabric, {{1, 2}}), "");
  EXPECT_NE(errorOf(fabric, {{1, 1}}).find("is not there"), std::string::npos);
}

TEST(RankMap, RefusesANodeWithoutRailsUnlessItIsTheOnlyOne) {
  Fabric fabric = standardFabric(Target::kGaudi2, 2);
  fabric.exceptions = {{1, 1, {0, 1, 2, 3, 4, 5, 6, 7}, {}}};
  EXPECT_NE(errorOf(fabric, {{0, 0}, {1, 4}}).find("all rails of node 1 are down"), std::string::npos);
  EXPECT_EQ(errorOf(fabric, {{1, 0}, {1, 4}}), "");
}

TEST(RankMap, HoldsAMillionRanksInAnyOrder) {
  const Fabric fabric = standardFabric(Target::kGaudi3, kMaxFabricDevices / 8);
  std::vector<Place> places(kMaxFabricDevices);
  for (int32_t i = 0; i < kMaxFabricDevices; ++i) places[static_cast<size_t>(i)] = {i / 8, i % 8};
  std::mt19937 random(7);
  std::shuffle(places.begin(), places.end(), random);
  const auto map = RankMap::create(fabric, places);
  ASSERT_TRUE(map.ok());
  EXPECT_EQ(map->ranksPerNode(), 8);
  for (int32_t rank = 0; rank < map->ranks(); rank += 997)
    EXPECT_EQ(map->position(rank), (Position{map->place(rank).node, map->place(rank).device}));
}

}  // namespace
}  // namespace hpu::collectives
