// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/Overlaps.h"

#include <algorithm>
#include <string>

#include "base/Format.h"
#include "hpu/types.h"

namespace hpu::collectives {
namespace {

uint64_t bytesOf(const Transfer& transfer) {
  return static_cast<uint64_t>(transfer.count * elementSize(transfer.type));
}

struct Bytes {
  uint64_t begin = 0, end = 0;
  const Transfer* transfer = nullptr;
};

std::string describe(const Bytes& range) {
  return base::strCat("the ", range.end - range.begin, " bytes at ", base::formatHex(range.begin),
                      range.transfer->send ? " that it sends to rank " : " that it receives from rank ",
                      range.transfer->peer);
}

}  // namespace

Status checkOverlaps(const std::vector<Transfer>& transfers, int rank) {
  if (transfers.size() < 2) return okStatus();
  std::vector<const Transfer*> toItself;
  for (const Transfer& transfer : transfers)
    if (transfer.send && transfer.peer == rank) toItself.push_back(&transfer);
  std::vector<Bytes> ranges;
  size_t met = 0;  // The k-th send of a rank to itself meets its k-th receive.
  for (const Transfer& transfer : transfers) {
    bool stays = false;
    if (!transfer.send && transfer.peer == rank && met < toItself.size()) {
      const Transfer& from = *toItself[met++];
      stays = from.address == transfer.address && bytesOf(from) == bytesOf(transfer);
    }
    if (transfer.count > 0 && !stays)
      ranges.push_back({transfer.address, transfer.address + bytesOf(transfer), &transfer});
  }
  std::sort(ranges.begin(), ranges.end(), [](const Bytes& a, const Bytes& b) { return a.begin < b.begin; });
  // Of all before, and of those that are received into, the one that reaches furthest.
  const Bytes *furthest = nullptr, *furthestWrite = nullptr;
  for (const Bytes& range : ranges) {
    const bool write = !range.transfer->send;
    const Bytes* other = write ? furthest : furthestWrite;
    if (other && other->end > range.begin) {
      const Bytes &first = write ? range : *other, &second = write ? *other : range;
      return invalidArgument(base::strCat(describe(first), " overlap ", describe(second),
                                          ": they go on together, so each needs its own memory"));
    }
    if (!furthest || furthest->end < range.end) furthest = &range;
    if (write && (!furthestWrite || furthestWrite->end < range.end)) furthestWrite = &range;
  }
  return okStatus();
}

}  // namespace hpu::collectives
