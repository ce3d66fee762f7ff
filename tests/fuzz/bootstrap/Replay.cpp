// SPDX-License-Identifier: Apache-2.0
// Right messages of each side, to be mutated.
#include "tests/fuzz/Replay.h"

#include "collectives/bootstrap/Coordinator.h"
#include "collectives/bootstrap/Values.h"
#include "collectives/bootstrap/Wire.h"

namespace {

using namespace hpu::collectives;

/// A conversation of each side.
std::vector<std::string> conversations() {
  using wire::MessageType;
  wire::Writer put, up;
  put.text("key");
  put.text("value");
  const std::string part = encodePart(
      {.status = {}, .values = {{2, "card 2"}, {3, "card 3"}, {7, "card 2"}}, .processes = {{2, "process 1 on a"}}});
  up.text("cards");
  up.raw(part);
  std::string rank = "\x1f" + wire::encodeFrame(MessageType::kHello, 0, wire::encodeHello({7, 1, 4, 99, "a"})) +
                     wire::encodeFrame(MessageType::kProof, 0, std::string(32, 'p')) +
                     wire::encodeFrame(MessageType::kPut, 0, put.take()) + wire::encodeFrame(MessageType::kBye, 0, "");
  std::string old = "\x1f" + wire::encodeFrame(MessageType::kHello, 0, wire::encodeHello({7, 1, 4, 99, "a"}), 2);
  std::string peer = "\x87" + wire::encodeFrame(MessageType::kPeerHello, 0, wire::encodePeerHello({7, 8, 3})) +
                     wire::encodeFrame(MessageType::kUp, 1, up.take()) + wire::encodeFrame(MessageType::kDown, 1, part);
  std::string coordinator =
      "\x80" + wire::encodeFrame(MessageType::kChallenge, 0, std::string(32, 'c')) +
      wire::encodeFrame(MessageType::kProven, 0, std::string(32, 'p')) +
      wire::encodeFrame(MessageType::kMissing, 2,
                        encodeMissing({{1, MemberState::kDied, "process 1 on a"}, {2, MemberState::kAbsent, ""}}));
  return {rank, old, peer, coordinator, "127.0.0.1:4000", "[fe80::1%1]:5"};
}

}  // namespace

int main(int argc, char** argv) {
  using namespace hpu::fuzz;
  return replay(argc, argv,
                {.name = "bootstrap",
                 .samples = inputsOf(conversations()),
                 .edits = {anotherByte, anotherBit, cutOff, repeatPiece}});
}
