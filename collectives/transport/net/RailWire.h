// SPDX-License-Identifier: Apache-2.0
// RailWire: what the two ends of a link over several rails say over each of its connections, as bytes.
// The one thing to know: what comes in may be anybody's; every count is bounded before it is used. Numbers are
// little-endian. Frames with a `sequence` are the link's own, one after another, whatever connection they take; the
// others are of the connection over which they come.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/transport/net/Network.h"
#include "hpu/status.h"

namespace hpu::collectives::net::rails {

/// Raise it whenever something of this file changes.
inline constexpr uint8_t kVersion = 1;
inline constexpr size_t kMostRails = 8;
/// Of a window's parts: each is written by itself, so that the ends hear of each other between them.
inline constexpr size_t kMostParts = 64;
/// Of a frame of this file, without its body.
inline constexpr size_t kMostHeadBytes = 48;

using Session = std::array<std::byte, 16>;

struct Frame {
  enum class Kind : uint8_t {
    kHere,    ///< `doors`: where the sender's end is dialled, by rail.
    kBeat,    ///< The sender lives.
    kSwitch,  ///< The sender's sequence goes on over this connection. `turn` counts such words.
    kAt,      ///< The answer: from `sequence` on. Windows up to `window` that were not told of here are closed.
    kMap,     ///< Window `window` of `bytes` bytes is reached here: `windows`, each of `offset` bytes but the last one.
    kUnmap,   ///< It is closed.
    // With a sequence:
    kPart,   ///< The beginning of the frame that comes next.
    kFrame,  ///< `body`.
    kPiece,  ///< Behind `bytes` bytes that were written at `offset` into `window`.
    kData,   ///< As kPiece; the write's `total` bytes are there, and its frame is `body`.
    kSkip,   ///< What was here was given up.
    kBye,    ///< The sender has closed the link.
  };
  Kind kind = Kind::kBeat;
  bool wantsAck = false;
  uint64_t ack = 0;  ///< The sender's owner was told of all up to this sequence.
  uint64_t sequence = 0;
  uint64_t turn = 0;
  uint32_t window = 0;
  uint64_t offset = 0, bytes = 0, total = 0;
  std::vector<Window> windows = {};
  std::vector<std::string> doors = {};
  std::span<const std::byte> body = {};  ///< A reader's is the frame's.
};
inline bool isSequenced(Frame::Kind kind) {
  return kind >= Frame::Kind::kPart;
}
std::vector<std::byte> encode(const Frame& frame);
/// Errors: kInvalidArgument.
StatusOr<Frame> decode(std::span<const std::byte> bytes);

/// What who dials a connection says first.
struct Hello {
  bool first = true;    ///< The link may be new to the one who is dialled.
  bool dialler = true;  ///< This end has dialled the link's first connection.
  Session session{};
  std::string owner = {};  ///< What the link's owner says.
};
inline constexpr size_t kMostOwnerHello = kMostHelloBytes - 24;
std::string encodeHello(const Hello& hello);
/// Errors: kInvalidArgument, kUnimplemented (another version).
StatusOr<Hello> decodeHello(std::string_view text);

/// A door of several rails: where it is dialled on each.
std::string encodeDoors(const std::vector<std::string>& doors);
/// Errors: kInvalidArgument.
StatusOr<std::vector<std::string>> decodeDoors(std::string_view text);

}  // namespace hpu::collectives::net::rails
