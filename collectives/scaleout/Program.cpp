// SPDX-License-Identifier: Apache-2.0
#include "collectives/scaleout/Program.h"

namespace hpu::collectives {

int32_t resolve(const RankMap& map, int32_t rank, PeerName peer) {
  const auto wrapped = [](int32_t value, int32_t size) { return ((value % size) + size) % size; };
  const Position here = map.position(rank);
  switch (peer.form) {
    case PeerName::Form::kGridShift:
      return map.rankAt(wrapped(here.node + peer.a, map.nodes()), wrapped(here.local + peer.b, map.ranksPerNode()));
    case PeerName::Form::kNodeXor:
      return map.rankAt(here.node ^ peer.a, here.local);
    case PeerName::Form::kRankShift:
      return wrapped(rank + peer.a, map.ranks());
    case PeerName::Form::kRank:
      return peer.a;
  }
  return peer.a;
}

}  // namespace hpu::collectives
