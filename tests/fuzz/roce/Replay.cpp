// SPDX-License-Identifier: Apache-2.0
// A packet of each opcode, to be mutated.
#include "tests/fuzz/Replay.h"

#include "collectives/roce/Icrc.h"
#include "collectives/roce/Packet.h"

namespace {

using namespace hpu::roce;

std::vector<std::string> packets() {
  std::vector<std::string> all;
  for (int code = 0; code < 256; ++code) {
    Packet packet;
    packet.opcode = static_cast<Opcode>(code);
    const OpcodeTraits& traits = traitsOf(packet.opcode);
    if (traits.name.empty()) continue;
    packet.queuePair = 17;
    packet.psn = 0xFFFFFE;
    packet.address = 0x1000;
    packet.length = 37;
    const std::vector<uint8_t> payload(traits.payload ? 37 : 0, 0x5A);
    packet.payload = payload;
    std::vector<uint8_t> bytes(datagramBytes(packet));
    encode(packet, bytes);
    sealIcrc({}, bytes);
    all.emplace_back(bytes.begin(), bytes.end());
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace hpu::fuzz;
  return replay(
      argc, argv,
      {.name = "roce", .samples = inputsOf(packets()), .edits = {anotherByte, anotherBit, cutOff, repeatPiece}});
}
