// SPDX-License-Identifier: Apache-2.0
// Frames: what ranks of different nodes tell each other, as bytes. A frame is a few items, one after another.
// The one thing to know: numbers are little-endian, and what comes in is checked against the communicator's size before
// anybody sees it.
//
//   FrameWriter out;
//   if (!out.add(ReleasedItem{Lane::kReply, 5})) {...}  // No room: send out.bytes() first.
//   FrameReader in(frame, limits);
//   HPU_ASSIGN(std::optional<Item> item, in.next());
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "collectives/transport/Transport.h"
#include "collectives/transport/net/Network.h"

namespace hpu::collectives::net {

/// Raise it whenever an item changes.
inline constexpr uint32_t kItemsVersion = 2;
/// Messages up to this size fit into a frame.
inline constexpr int64_t kMostEagerBytes = 8 << 10;
/// Of why a rank gave up or is gone.
inline constexpr size_t kMostReasonBytes = 4000;

// ---- Between two ranks: messages ----

/// A small message.
struct MessageItem {
  Lane lane{};
  uint64_t index = 0;
  MessageTag tag;
  std::span<const std::byte> data;     ///< A reader's is the frame's.
  std::optional<uint32_t> check = {};  ///< CRC-32C of the bytes, when the sender has computed it.
};
/// A large message has been offered; its bytes come when the receiver is ready.
struct AnnounceItem {
  Lane lane{};
  uint64_t index = 0;
  MessageTag tag;
  int64_t bytes = 0;
};
/// The receiver wants that message there. With another size than the message: it is not to be sent.
struct ReadyItem {
  Lane lane{};
  uint64_t index = 0;
  int64_t bytes = 0;
  Window window;
};
/// Behind the bytes of a large message.
struct DataItem {
  Lane lane{};
  uint64_t index = 0;
  MessageTag tag;
  std::optional<uint32_t> check = {};  ///< As a MessageItem's.
};
/// How many messages of the lane the receiver has released.
struct ReleasedItem {
  Lane lane{};
  uint64_t count = 0;
};
/// The sender was told kFull for that message, and wants to hear of each release until it fits.
struct WantItem {
  Lane lane{};
  uint64_t index = 0;
};
/// The sender is about to leave: what it has offered is to be fetched now.
struct LeavingItem {};

// ---- Along the tree: what a rank tells all others ----

struct RecordItem {
  int32_t rank = 0;
  uint64_t retired = 0;
  CallRecord record;
};
struct RetiredItem {
  int32_t rank = 0;
  uint64_t sequence = 0;
};
/// The rank could not publish that one: the others say at once what they retire until it fits.
struct RefusedItem {
  int32_t rank = 0;
  uint64_t sequence = 0;
};
enum class RankEnd : uint8_t {
  kNone = 0,
  kAborted = 1,  ///< It gave up.
  kLeft = 2,     ///< Its transport was destroyed.
  kGone = 3,     ///< Its process ended, or cannot be reached.
};
struct EndItem {
  int32_t rank = 0;
  RankEnd end = RankEnd::kNone;
  StatusCode code = StatusCode::kOk;
  std::string reason;
};
/// A number that the rank counts up when it advances.
struct BeatItem {
  int32_t rank = 0;
  uint64_t beat = 0;
};
/// What the rank's node sees of its process; `number` counts up with each change.
struct StoppedItem {
  int32_t rank = 0;
  uint64_t number = 0;
  bool stopped = false;
};
/// A number that the first rank of a node counts up as long as it runs.
struct AliveItem {
  int32_t node = 0;
  uint64_t number = 0;
};

using Item = std::variant<MessageItem, AnnounceItem, ReadyItem, DataItem, ReleasedItem, WantItem, LeavingItem,
                          RecordItem, RetiredItem, RefusedItem, EndItem, BeatItem, StoppedItem, AliveItem>;

class FrameWriter {
 public:
  /// False: it does not fit behind what is there, and nothing was added. Every item fits into an empty frame, with
  /// messages of up to kMostEagerBytes; a longer reason is cut.
  bool add(const Item& item);
  bool empty() const { return bytes_.empty(); }
  std::span<const std::byte> bytes() const { return bytes_; }
  void clear() { bytes_.clear(); }

 private:
  std::vector<std::byte> bytes_;
};

/// Of the communicator.
struct FrameLimits {
  int32_t ranks = 0, nodes = 0;
  int64_t bytes = int64_t{1} << 40;  ///< Of a message: more than any device has.
};

class FrameReader {
 public:
  FrameReader(std::span<const std::byte> frame, FrameLimits limits) : frame_(frame), limits_(limits) {}
  /// Nothing at the end. Errors: kInvalidArgument (then there is nothing more).
  StatusOr<std::optional<Item>> next();

 private:
  std::span<const std::byte> frame_;
  const FrameLimits limits_;
};

/// What a rank that dials another one says first.
enum class LinkUse : uint8_t {
  kMessages = 0,
  kTree = 1,
};
struct NetHello {
  int32_t rank = 0, ranks = 0;
  LinkUse use = LinkUse::kMessages;
};
std::string encodeNetHello(const NetHello& hello);
/// Errors: kInvalidArgument, kUnimplemented (of another version).
StatusOr<NetHello> decodeNetHello(std::string_view text);

/// What every rank tells every other one when they meet.
struct NetCard {
  uint32_t version = kItemsVersion;
  int64_t pid = 0;
  int32_t node = 0;
  int64_t smallBytes = 0;
  std::string host, address;  ///< For errors.
  std::string network;        ///< Its name.
  std::string door;           ///< Where to dial it; a secret.
};
std::string encodeNetCard(const NetCard& card);
/// Errors: kInvalidArgument, kUnimplemented.
StatusOr<NetCard> decodeNetCard(std::string_view text);

}  // namespace hpu::collectives::net
