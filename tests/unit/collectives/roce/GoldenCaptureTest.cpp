// SPDX-License-Identifier: Apache-2.0
// Packets of Linux' rdma_rxe and of ours, captured in the lab (tests/interop/rxe): what is real must be understood.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "collectives/roce/Icrc.h"
#include "collectives/roce/Packet.h"

namespace hpu::roce {
namespace {

/// IPv6 packets of a pcap file.
std::vector<std::vector<uint8_t>> packetsOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  std::vector<std::vector<uint8_t>> packets;
  for (size_t at = 24; at + 16 <= bytes.size();) {
    uint32_t length = 0;
    memcpy(&length, bytes.data() + at + 8, sizeof length);
    at += 16;
    packets.emplace_back(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                         bytes.begin() + static_cast<std::ptrdiff_t>(at + length));
    at += length;
  }
  return packets;
}

TEST(GoldenCapture, OfLinuxIsUnderstoodAndWrittenTheSame) {
  const char* source = std::getenv("HPU_SOURCE_DIR");
  ASSERT_NE(source, nullptr) << "HPU_SOURCE_DIR is the project's folder";
  const auto packets = packetsOf(std::string(source) + "/tests/data/roce/rdma_rxe.pcap");
  ASSERT_GT(packets.size(), 300u);
  constexpr size_t kIp = 40, kUdp = 8;
  constexpr uint8_t kLinux = 1;  // The last byte of its address.
  std::set<Opcode> theirs;
  for (size_t i = 0; i < packets.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "packet " << i);
    const std::vector<uint8_t>& whole = packets[i];
    ASSERT_GT(whole.size(), kIp + kUdp);
    Route route;
    std::copy_n(&whole[8], 16, route.source.begin());
    std::copy_n(&whole[24], 16, route.destination.begin());
    route.sourcePort = static_cast<uint16_t>(whole[kIp] << 8 | whole[kIp + 1]);
    const std::span<const uint8_t> datagram = std::span(whole).subspan(kIp + kUdp);
    EXPECT_TRUE(checkIcrc(route, datagram));
    Packet packet;
    ASSERT_EQ(parse(datagram, packet), Malformed::kNo);
    std::vector<uint8_t> again(datagramBytes(packet));
    encode(packet, again);
    sealIcrc(route, again);
    EXPECT_TRUE(std::equal(again.begin(), again.end(), datagram.begin(), datagram.end())) << text(packet);
    if (whole[23] != kLinux) continue;
    theirs.insert(packet.opcode);
  }
  for (Opcode opcode :
       {Opcode::kSendFirst, Opcode::kSendMiddle, Opcode::kSendLast, Opcode::kSendOnly, Opcode::kWriteFirst,
        Opcode::kWriteMiddle, Opcode::kWriteLast, Opcode::kWriteLastImmediate, Opcode::kWriteOnly,
        Opcode::kWriteOnlyImmediate, Opcode::kReadRequest, Opcode::kReadResponseFirst, Opcode::kReadResponseMiddle,
        Opcode::kReadResponseLast, Opcode::kReadResponseOnly, Opcode::kAcknowledge, Opcode::kAtomicAcknowledge,
        Opcode::kCompareSwap, Opcode::kFetchAdd})
    EXPECT_TRUE(theirs.contains(opcode)) << traitsOf(opcode).name;
}

}  // namespace
}  // namespace hpu::roce
