// SPDX-License-Identifier: Apache-2.0
// What a rank of another node says, to be mutated.
#include "tests/fuzz/Replay.h"

#include "collectives/transport/net/Frames.h"
#include "collectives/transport/net/RailWire.h"

namespace {

using namespace hpu::collectives;
using namespace hpu::collectives::net;

std::string frame(const std::vector<Item>& items) {
  FrameWriter out;
  for (const Item& item : items) out.add(item);
  std::string text = "\x01";
  text.append(reinterpret_cast<const char*>(out.bytes().data()), out.bytes().size());
  return text;
}

std::string rail(rails::Frame frame) {
  const auto bytes = rails::encode(frame);
  return "\x01" + std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::vector<std::string> conversations() {
  static const std::vector<std::byte> data(20, std::byte{1});
  constexpr Lane kLane = Lane::kCollective;
  CallRecord one, two;
  one.sequence = 1;
  two.sequence = 2;
  two.portsBusy = 1;
  NetCard card;
  card.host = card.door = "abc";
  return {
      frame({AnnounceItem{kLane, 0, {}, 500}, DataItem{kLane, 0, {}, 7}, MessageItem{kLane, 1, {}, data, 9},
             DataItem{kLane, 2, {}}, MessageItem{kLane, 4, {}, data}}),
      frame({ReadyItem{kLane, 1, 500, {1, 1}}, ReadyItem{kLane, 3, 400, {2, 1}}, ReleasedItem{kLane, 3},
             WantItem{kLane, 70}}),
      frame({AnnounceItem{kLane, 1, {}, int64_t{1} << 20}, AnnounceItem{kLane, 3, {}, 300}, LeavingItem{},
             EndItem{1, RankEnd::kLeft, hpu::StatusCode::kOk, ""}}),
      frame({MessageItem{kLane, 0, {}, data}, MessageItem{kLane, 2, {}, {}}, AnnounceItem{kLane, 4, {}, 100},
             ReadyItem{kLane, 60, 7, {3, 1}}}),
      frame({RecordItem{1, 0, one}, RecordItem{1, 1, two}, RetiredItem{2, 40}, RefusedItem{1, 65}, BeatItem{2, 9},
             StoppedItem{3, 1, true}, AliveItem{1, 5}, EndItem{2, RankEnd::kGone, hpu::StatusCode::kUnavailable, "x"}}),
      encodeNetHello({1, 4, LinkUse::kTree}),
      encodeNetCard(card),
      rail({.kind = rails::Frame::Kind::kHere, .doors = {"one", "two"}}),
      rail({.kind = rails::Frame::Kind::kMap, .window = 3, .offset = 4, .bytes = 7, .windows = {{1, 2}, {3, 4}}}),
      rail({.kind = rails::Frame::Kind::kAt, .ack = 5, .sequence = 6, .window = 7}),
      rail({.kind = rails::Frame::Kind::kData,
            .sequence = 6,
            .window = 7,
            .offset = 8,
            .bytes = 9,
            .total = 17,
            .body = data}),
      "\x01" + rails::encodeHello({.session = {}, .owner = "hello"}),
      "\x01" + rails::encodeDoors({"one", "two"}),
  };
}

}  // namespace

int main(int argc, char** argv) {
  using namespace hpu::fuzz;
  return replay(
      argc, argv,
      {.name = "net", .samples = inputsOf(conversations()), .edits = {anotherByte, anotherBit, cutOff, repeatPiece}});
}
