// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any datagram is no packet, or one that means the same when it is written again.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "collectives/roce/Icrc.h"
#include "collectives/roce/Packet.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hpu::roce;
  // A copy of its own size: what is read beyond it is seen.
  std::vector<uint8_t> datagram(data, data + size);
  Packet packet;
  const Malformed malformed = parse(datagram, packet);
  if (malformedName(malformed).empty()) abort();
  Route route;
  if (size > 0) route.isV6 = data[0] & 1;
  if (malformed != Malformed::kNo) {
    (void)checkIcrc(route, datagram);
    return 0;
  }
  const uint8_t* end = datagram.data() + datagram.size() - kIcrcBytes;
  if (!packet.payload.empty() &&
      (packet.payload.data() < datagram.data() || packet.payload.data() + packet.payload.size() > end))
    abort();
  if (text(packet).empty()) abort();
  std::vector<uint8_t> again(datagramBytes(packet));
  if (again.size() > datagram.size()) abort();
  encode(packet, again);
  sealIcrc(route, again);
  Packet read;
  if (parse(again, read) != Malformed::kNo || !checkIcrc(route, again) || text(read) != text(packet)) abort();
  if (packet.payload.size() != read.payload.size() ||
      (!packet.payload.empty() && memcmp(packet.payload.data(), read.payload.data(), packet.payload.size()) != 0))
    abort();
  return 0;
}
