// SPDX-License-Identifier: Apache-2.0
#include "collectives/fabric/RankMap.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::collectives {
namespace {

using base::strCat;

bool hasDevice(const Fabric& fabric, int32_t node, int32_t device) {
  const NodeException* exception = fabric.exceptionOf(node);
  return !exception || exception->devices.empty() ||
         std::binary_search(exception->devices.begin(), exception->devices.end(), device);
}

Status checkPlaces(const Fabric& fabric, const std::vector<Place>& places) {
  if (places.empty()) return invalidArgument("there are no ranks");
  if (places.size() > static_cast<size_t>(kMaxFabricDevices))
    return invalidArgument(strCat("there are ", places.size(), " ranks; at most ", kMaxFabricDevices));
  for (size_t rank = 0; rank < places.size(); ++rank) {
    const auto [node, device] = places[rank];
    if (node < 0 || node >= fabric.nodes)
      return invalidArgument(
          strCat("rank ", rank, " is on node ", node, "; '", fabric.name, "' has nodes 0 to ", fabric.nodes - 1));
    if (device < 0 || device >= fabric.devicesPerNode)
      return invalidArgument(strCat("rank ", rank, " is on device ", device, " of node ", node, "; '", fabric.name,
                                    "' has devices 0 to ", fabric.devicesPerNode - 1));
    if (!hasDevice(fabric, node, device))
      return invalidArgument(strCat("rank ", rank, " is on device ", device, " of node ", node, ", which '",
                                    fabric.name, "' says is not there ('devices' of its exception)"));
  }
  return {};
}

}  // namespace

StatusOr<RankMap> RankMap::create(const Fabric& fabric, std::vector<Place> places) {
  HPU_RETURN_IF_ERROR(checkPlaces(fabric, places));
  RankMap map;
  map.places_ = std::move(places);
  map.positions_.resize(map.places_.size());
  std::vector<int32_t> order(map.places_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const Place x = map.place(a), y = map.place(b);
    return std::tuple(x.node, x.device, a) < std::tuple(y.node, y.device, b);
  });
  for (size_t i = 0; i < order.size(); ++i) {
    const int32_t rank = order[i];
    const Place place = map.place(rank);
    if (i > 0 && map.place(order[i - 1]) == place)
      return invalidArgument(
          strCat("ranks ", order[i - 1], " and ", rank, " are both on device ", place.device, " of node ", place.node));
    if (i == 0 || map.place(order[i - 1]).node != place.node) map.ofNode_.emplace_back();
    std::vector<int32_t>& here = map.ofNode_.back();
    map.positions_[static_cast<size_t>(rank)] = {map.nodes() - 1, static_cast<int32_t>(here.size())};
    here.push_back(rank);
  }
  map.perNode_ = static_cast<int32_t>(map.ofNode_[0].size());
  for (const std::vector<int32_t>& ranks : map.ofNode_) {
    if (static_cast<int32_t>(ranks.size()) != map.perNode_) map.perNode_ = 0;
    const int32_t node = map.place(ranks[0]).node;
    if (map.nodes() > 1 && fabric.railOf(node, 0) < 0)
      return invalidArgument(strCat("all rails of node ", node, " are down, so its ", ranks.size(), " ranks (",
                                    ranks[0], " ...) reach no other node's"));
  }
  return map;
}

StatusOr<RankMap> RankMap::all(const Fabric& fabric) {
  std::vector<Place> places;
  places.reserve(static_cast<size_t>(fabric.nodes) * static_cast<size_t>(fabric.devicesPerNode));
  for (int32_t node = 0; node < fabric.nodes; ++node)
    for (int32_t device = 0; device < fabric.devicesPerNode; ++device)
      if (hasDevice(fabric, node, device)) places.push_back({node, device});
  return create(fabric, std::move(places));
}

}  // namespace hpu::collectives
