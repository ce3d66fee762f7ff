// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/Frames.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::collectives::net {
namespace {

using base::strCat;

constexpr char kHelloMark = 'h', kCardMark = 'c';
constexpr size_t kMostText = 256, kMostDoor = 1 << 11;

class Out {
 public:
  explicit Out(std::vector<std::byte>& bytes) : bytes_(bytes) {}
  void u8(uint64_t value) { number(value, 1); }
  void u32(uint64_t value) { number(value, 4); }
  void u64(uint64_t value) { number(value, 8); }
  void i32(int32_t value) { u32(static_cast<uint32_t>(value)); }
  void i64(int64_t value) { u64(static_cast<uint64_t>(value)); }
  void raw(std::span<const std::byte> data) { bytes_.insert(bytes_.end(), data.begin(), data.end()); }
  void text(std::string_view value, size_t most) {
    value = value.substr(0, most);
    u32(value.size());
    raw(std::as_bytes(std::span(value)));
  }
  void check(const std::optional<uint32_t>& check) {
    u8(check.has_value());
    if (check) u32(*check);
  }
  void tag(const MessageTag& tag) {
    u64(tag.sequence), i64(tag.arrivalPs), i64(tag.count), u32(tag.type), u32(tag.flags);
  }

 private:
  void number(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  std::vector<std::byte>& bytes_;
};

/// After a failure all reads give zero.
class In {
 public:
  In(std::span<const std::byte> bytes, FrameLimits limits) : bytes_(bytes), limits_(limits) {}
  uint64_t number(size_t count) {
    if (bytes_.size() < count) {
      fail();
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < count; ++i) value |= std::to_integer<uint64_t>(bytes_[i]) << (8 * i);
    bytes_ = bytes_.subspan(count);
    return value;
  }
  uint8_t u8() { return static_cast<uint8_t>(number(1)); }
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  uint64_t u64() { return number(8); }
  int32_t i32() { return static_cast<int32_t>(u32()); }
  int64_t i64() { return static_cast<int64_t>(u64()); }
  std::span<const std::byte> raw(size_t count, size_t most) {
    if (count > most || count > bytes_.size()) {
      fail();
      return {};
    }
    auto result = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return result;
  }
  std::string text(size_t most) {
    auto data = raw(u32(), most);
    return std::string(reinterpret_cast<const char*>(data.data()), data.size());
  }
  MessageTag tag() {
    MessageTag tag;
    tag.sequence = u64(), tag.arrivalPs = i64(), tag.count = i64(), tag.type = u32(), tag.flags = u32();
    return tag;
  }
  std::optional<uint32_t> check() { return flag() ? std::optional<uint32_t>(u32()) : std::nullopt; }
  template <typename T>
  T below(T value, T limit) {
    if (value >= T{} && value < limit) return value;
    fail();
    return T{};
  }
  Lane lane() { return static_cast<Lane>(below<int>(u8(), kNumLanes)); }
  int32_t rank() { return below(i32(), limits_.ranks); }
  int32_t node() { return below(i32(), limits_.nodes); }
  int64_t size() { return below(i64(), limits_.bytes); }
  bool flag() { return below<int>(u8(), 2) != 0; }

  void fail() {
    ok_ = false;
    bytes_ = {};
  }
  bool ok() const { return ok_; }
  std::span<const std::byte> rest() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
  const FrameLimits limits_;
  bool ok_ = true;
};

// ---- Items ----

void put(Out& out, const MessageItem& item) {
  out.u8(static_cast<uint8_t>(item.lane)), out.u64(item.index), out.tag(item.tag), out.u32(item.data.size());
  out.raw(item.data), out.check(item.check);
}
void put(Out& out, const AnnounceItem& item) {
  out.u8(static_cast<uint8_t>(item.lane)), out.u64(item.index), out.tag(item.tag), out.i64(item.bytes);
}
void put(Out& out, const ReadyItem& item) {
  out.u8(static_cast<uint8_t>(item.lane)), out.u64(item.index), out.i64(item.bytes);
  out.u64(item.window.address), out.u32(item.window.key);
}
void put(Out& out, const DataItem& item) {
  out.u8(static_cast<uint8_t>(item.lane)), out.u64(item.index), out.tag(item.tag), out.check(item.check);
}
void put(Out& out, const ReleasedItem& item) {
  out.u8(static_cast<uint8_t>(item.lane)), out.u64(item.count);
}
void put(Out& out, const WantItem& item) {
  out.u8(static_cast<uint8_t>(item.lane)), out.u64(item.index);
}
void put(Out&, const LeavingItem&) {}
void put(Out& out, const RecordItem& item) {
  const CallRecord& record = item.record;
  out.i32(item.rank), out.u64(item.retired);
  out.u64(record.sequence), out.u64(record.fingerprint), out.u64(record.tableHash), out.i64(record.count);
  out.i64(record.arrivalPs), out.u64(std::bit_cast<uint64_t>(record.scale));
  out.u64(record.input), out.u64(record.output), out.i32(record.root), out.i32(record.destination);
  out.u8(record.collective), out.u8(record.type), out.u8(record.op);
  out.u8(record.direct != 0), out.u8(record.follows != 0), out.u8(record.portsBusy != 0);
  if (record.portsBusy == 0) return;
  for (const auto& way : record.portsPs)
    for (int64_t ps : way) out.i64(ps);
}
void put(Out& out, const RetiredItem& item) {
  out.i32(item.rank), out.u64(item.sequence);
}
void put(Out& out, const RefusedItem& item) {
  out.i32(item.rank), out.u64(item.sequence);
}
void put(Out& out, const EndItem& item) {
  out.i32(item.rank), out.u8(static_cast<uint8_t>(item.end)), out.u8(static_cast<uint8_t>(item.code));
  out.text(item.reason, kMostReasonBytes);
}
void put(Out& out, const BeatItem& item) {
  out.i32(item.rank), out.u64(item.beat);
}
void put(Out& out, const StoppedItem& item) {
  out.i32(item.rank), out.u64(item.number), out.u8(item.stopped);
}
void put(Out& out, const AliveItem& item) {
  out.i32(item.node), out.u64(item.number);
}

// Members are read in the order in which they were written.

void take(In& in, MessageItem& item) {
  item.lane = in.lane(), item.index = in.u64(), item.tag = in.tag();
  item.data = in.raw(in.u32(), kMostEagerBytes), item.check = in.check();
}
void take(In& in, AnnounceItem& item) {
  item.lane = in.lane(), item.index = in.u64(), item.tag = in.tag(), item.bytes = in.size();
}
void take(In& in, ReadyItem& item) {
  item.lane = in.lane(), item.index = in.u64(), item.bytes = in.size();
  item.window.address = in.u64(), item.window.key = in.u32();
}
void take(In& in, DataItem& item) {
  item.lane = in.lane(), item.index = in.u64(), item.tag = in.tag(), item.check = in.check();
}
void take(In& in, ReleasedItem& item) {
  item.lane = in.lane(), item.count = in.u64();
}
void take(In& in, WantItem& item) {
  item.lane = in.lane(), item.index = in.u64();
}
void take(In&, LeavingItem&) {}
void take(In& in, RecordItem& item) {
  CallRecord& record = item.record;
  item.rank = in.rank(), item.retired = in.u64();
  record.sequence = in.u64(), record.fingerprint = in.u64(), record.tableHash = in.u64(), record.count = in.i64();
  record.arrivalPs = in.i64(), record.scale = std::bit_cast<double>(in.u64());
  record.input = in.u64(), record.output = in.u64(), record.root = in.i32(), record.destination = in.i32();
  record.collective = in.u8(), record.type = in.u8(), record.op = in.u8();
  record.direct = in.flag(), record.follows = in.flag(), record.portsBusy = in.flag();
  if (record.portsBusy == 0) return;
  for (auto& way : record.portsPs)
    for (int64_t& ps : way) ps = in.i64();
}
void take(In& in, RetiredItem& item) {
  item.rank = in.rank(), item.sequence = in.u64();
}
void take(In& in, RefusedItem& item) {
  item.rank = in.rank(), item.sequence = in.u64();
}
void take(In& in, EndItem& item) {
  item.rank = in.rank();
  item.end = static_cast<RankEnd>(in.below<int>(in.u8(), static_cast<int>(RankEnd::kGone) + 1));
  item.code = static_cast<StatusCode>(in.below<int>(in.u8(), static_cast<int>(StatusCode::kDataLoss) + 1));
  item.reason = in.text(kMostReasonBytes);
  if (item.end == RankEnd::kNone) in.fail();
}
void take(In& in, BeatItem& item) {
  item.rank = in.rank(), item.beat = in.u64();
}
void take(In& in, StoppedItem& item) {
  item.rank = in.rank(), item.number = in.u64(), item.stopped = in.flag();
}
void take(In& in, AliveItem& item) {
  item.node = in.node(), item.number = in.u64();
}

/// An item of the alternative with that number.
template <size_t I = 0>
bool takeKind(In& in, size_t kind, Item& item) {
  if constexpr (I < std::variant_size_v<Item>) {
    if (kind != I) return takeKind<I + 1>(in, kind, item);
    take(in, item.emplace<I>());
    return in.ok();
  } else {
    return false;
  }
}

}  // namespace

bool FrameWriter::add(const Item& item) {
  const size_t before = bytes_.size();
  Out out(bytes_);
  out.u8(item.index());
  std::visit([&](const auto& what) { put(out, what); }, item);
  if (bytes_.size() <= kMostFrameBytes) return true;
  bytes_.resize(before);
  return false;
}

StatusOr<std::optional<Item>> FrameReader::next() {
  if (frame_.empty()) return std::optional<Item>();
  const auto kind = std::to_integer<size_t>(frame_[0]);
  In in(frame_.subspan(1), limits_);
  Item item;
  if (!takeKind(in, kind, item)) {
    frame_ = {};
    return invalidArgument(strCat("an item of kind ", kind, " that is not well-formed"));
  }
  frame_ = in.rest();
  return std::optional<Item>(std::move(item));
}

// ---- Meeting ----

namespace {

std::string textOf(const std::vector<std::byte>& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}
Status otherVersion(uint32_t theirs) {
  return unimplemented(strCat("it speaks version ", theirs, " of the transport between nodes, and this one version ",
                              kItemsVersion, ": use one version of OpenHPU"));
}

}  // namespace

std::string encodeNetHello(const NetHello& hello) {
  std::vector<std::byte> bytes;
  Out out(bytes);
  out.u8(static_cast<uint8_t>(kHelloMark)), out.u32(kItemsVersion);
  out.i32(hello.rank), out.i32(hello.ranks), out.u8(static_cast<uint8_t>(hello.use));
  return textOf(bytes);
}

StatusOr<NetHello> decodeNetHello(std::string_view text) {
  In in(std::as_bytes(std::span(text)), {});
  if (in.u8() != kHelloMark) return invalidArgument("it is not a rank's greeting");
  if (const uint32_t version = in.u32(); in.ok() && version != kItemsVersion) return otherVersion(version);
  NetHello hello;
  hello.rank = in.i32(), hello.ranks = in.i32();
  hello.use = static_cast<LinkUse>(in.below<int>(in.u8(), 2));
  if (!in.ok() || !in.rest().empty() || hello.rank < 0 || hello.rank >= hello.ranks)
    return invalidArgument("it is not a rank's greeting");
  return hello;
}

std::string encodeNetCard(const NetCard& card) {
  std::vector<std::byte> bytes;
  Out out(bytes);
  out.u8(static_cast<uint8_t>(kCardMark)), out.u32(card.version);
  out.i64(card.pid), out.i32(card.node), out.i64(card.smallBytes);
  for (const std::string* text : {&card.host, &card.address, &card.network}) out.text(*text, kMostText);
  out.text(card.door, kMostDoor);
  return textOf(bytes);
}

StatusOr<NetCard> decodeNetCard(std::string_view text) {
  In in(std::as_bytes(std::span(text)), {});
  if (in.u8() != kCardMark) return invalidArgument("what it says of itself is not a card");
  NetCard card;
  card.version = in.u32();
  if (in.ok() && card.version != kItemsVersion) return otherVersion(card.version);
  card.pid = in.i64(), card.node = in.i32(), card.smallBytes = in.size();
  for (std::string* part : {&card.host, &card.address, &card.network}) *part = in.text(kMostText);
  card.door = in.text(kMostDoor);
  if (!in.ok() || !in.rest().empty()) return invalidArgument("what it says of itself is not a card");
  return card;
}

}  // namespace hpu::collectives::net
