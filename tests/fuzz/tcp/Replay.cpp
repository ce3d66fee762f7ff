// SPDX-License-Identifier: Apache-2.0
// What each end of a connection says, to be mutated.
#include "tests/fuzz/Replay.h"

#include "collectives/transport/net/TcpWire.h"

namespace {

using namespace hpu::collectives::net;
using namespace hpu::collectives::net::tcp;

std::string message(const Header& header) {
  std::string bytes(kHeaderBytes, '\0');
  encodeHeader(header, reinterpret_cast<std::byte*>(bytes.data()));
  return bytes;
}
std::string frame(const std::string& text) {
  return message({static_cast<uint16_t>(text.size()), {}, 0}) + text;
}
/// Into a window of the target: 1 is open, 2 was closed.
std::string write(uint64_t window, size_t bytes, const std::string& text, bool givenUp = false) {
  std::string trailer(kTrailerBytes, '\0');
  encodeTrailer(givenUp, reinterpret_cast<std::byte*>(trailer.data()));
  return message({static_cast<uint16_t>(text.size()), {window, 0x5945'4b2e}, bytes}) + std::string(bytes, 'd') +
         trailer + (givenUp ? "" : text);
}

std::vector<std::string> conversations() {
  DoorNumber door{};
  door[3] = std::byte{7};
  hpu::collectives::Address address;
  address.ip[0] = 10;
  address.port = 4000;
  const auto welcome = encodeAnswer(Answer::kWelcome), prove = encodeAnswer(Answer::kProve);
  std::vector<std::string> all = {
      encodeGreeting(door, {}, "rank 3 of a communicator"),
      encodeGreeting(door, {}, "", kVersion + 1),
      encodePlace({address, door}),
      std::string(reinterpret_cast<const char*>(welcome.data()), welcome.size()),
      std::string(reinterpret_cast<const char*>(prove.data()), prove.size()),
      frame("one") + frame("") + write(1, 1000, "all of it") + frame(std::string(3000, 'x')),
      frame("one") + write(2, 700, "dropped") + write(1, 5, "part of it") + frame("two"),
      write(1, 900, "never told", true) + frame("two"),
      write(1, 1001, "too much"),
      write(1, 1, "once") + write(1, 1, "twice"),
  };
  // In pieces of several sizes, and past the reader.
  const size_t count = all.size();
  for (size_t i = 0; i < count; ++i) {
    all.push_back("\x40" + all[i]);
    all.push_back("\x7f" + all[i]);
    all[i].insert(0, "\x17");
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace hpu::fuzz;
  return replay(
      argc, argv,
      {.name = "tcp", .samples = inputsOf(conversations()), .edits = {anotherByte, anotherBit, cutOff, repeatPiece}});
}
