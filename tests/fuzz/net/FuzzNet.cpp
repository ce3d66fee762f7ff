// SPDX-License-Identifier: Apache-2.0
// Fuzz target: a rank with messages in both directions hears any frames of its peer.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/transport/net/Book.h"
#include "collectives/transport/net/Frames.h"
#include "collectives/transport/net/Lanes.h"
#include "collectives/transport/net/RailWire.h"

namespace {

using namespace hpu::collectives;
using namespace hpu::collectives::net;

constexpr int64_t kSmall = 64, kBytes = 500;
constexpr FrameLimits kLimits{4, 2, 1 << 21};

/// It takes everything, and looks at what it is told.
class FuzzLink : public Link {
 public:
  explicit FuzzLink(const std::vector<std::byte>& memory) : memory_(memory) {}
  void start(std::shared_ptr<LinkEvents>) override {}
  bool send(std::span<const std::byte> frame) override {
    FrameReader in(frame, kLimits);
    for (;;) {
      auto item = in.next();
      if (!item.ok()) abort();
      if (!item->has_value()) return true;
    }
  }
  bool write(uint64_t id, const std::byte* data, int64_t bytes, const Window&, std::span<const std::byte>) override {
    if (data < memory_.data() || data + bytes > memory_.data() + memory_.size()) abort();
    ids.push_back(id);
    return true;
  }
  bool drained() override { return true; }
  Window openWindow(std::byte* data, int64_t bytes) override {
    if (!data || bytes <= 0) abort();
    return {++windows_, 1};
  }
  void closeWindow(const Window& window) override {
    if (window.address == 0 || window.address > windows_) abort();
  }
  void close() override {}
  std::string describe() const override { return "fuzz"; }

  std::vector<uint64_t> ids;

 private:
  const std::vector<std::byte>& memory_;
  uint64_t windows_ = 0;
};

class Owner : public LanesOwner, public std::enable_shared_from_this<Owner> {
 public:
  Owner() : memory(4096), link(std::make_shared<FuzzLink>(memory)), lanes(*this, 0, 1, kSmall) {}
  std::shared_ptr<LanesOwner> self() override { return shared_from_this(); }
  std::shared_ptr<Link> dialPeer(int, std::shared_ptr<LinkEvents> made) override {
    events = std::move(made);
    return link;
  }
  hpu::base::Deadline dialDeadline() const override { return hpu::base::Deadline::afterMs(0); }
  FrameLimits limits() const override { return kLimits; }
  void wake() override {}
  void peerEnded(int peer, const EndItem& end) override {
    if (peer != 1 || end.rank != 1) abort();
  }
  void peerBroken(int, const hpu::Status& why) override {
    if (why.message().empty()) abort();
    broken = true;
  }

  std::vector<std::byte> memory;
  std::shared_ptr<LinkEvents> events;
  std::shared_ptr<FuzzLink> link;
  bool broken = false;
  Lanes lanes;
};

void look(Lanes& lanes, const Owner& owner, uint64_t& taken, bool release) {
  for (uint64_t i = taken; i < taken + 4; ++i) {
    auto message = lanes.arrived(Lane::kCollective, i);
    if (!message || !message->data) continue;
    // It can be read to its end. (What was announced with a huge size has not come.)
    if (message->bytes <= 0) abort();
    const std::byte* data = message->data;
    const bool own = data >= owner.memory.data() && data < owner.memory.data() + owner.memory.size();
    if (own && data + message->bytes > owner.memory.data() + owner.memory.size()) abort();
  }
  if (release) {
    lanes.release(Lane::kCollective);
    ++taken;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto frame = std::as_bytes(std::span(data + 1, size - 1));
  {
    Book book(0, {0, 1, 1, 0});
    Book::Channel channel, other;
    book.attach(channel);
    book.attach(other);
    FrameReader in(frame, kLimits);
    for (auto item = in.next(); item.ok() && item->has_value(); item = in.next())
      if (!book.hear(channel, **item).ok()) break;
    FrameWriter out;
    while (book.fill(other, out)) out.clear();
  }
  auto owner = std::make_shared<Owner>();
  Lanes& lanes = owner->lanes;
  std::byte* memory = owner->memory.data();
  for (uint64_t i = 0; i < 3; ++i) lanes.expect(Lane::kCollective, 2 * i, memory + i * kBytes, i == 2 ? 10 : kBytes);
  for (int64_t bytes : {int64_t{5}, kBytes, int64_t{0}, kBytes})
    (void)lanes.offer(Lane::kCollective, bytes ? memory + 2000 : nullptr, bytes, {});
  owner->events->onRoom();
  // The frame comes in pieces of items; between them the rank looks, and gets rid of what was written.
  uint64_t taken = 0;
  const size_t pieces = data[0] % 4 + size_t{1};
  for (size_t piece = 0; piece < pieces && !owner->broken; ++piece) {
    const size_t begin = frame.size() * piece / pieces, end = frame.size() * (piece + 1) / pieces;
    owner->events->onFrame(frame.subspan(begin, end - begin));
    look(lanes, *owner, taken, piece % 2);
    for (uint64_t id : std::exchange(owner->link->ids, {})) owner->events->onWritten(id);
    (void)lanes.released(Lane::kCollective);
  }
  lanes.stop({0, RankEnd::kAborted, hpu::StatusCode::kAborted, "enough"}, hpu::base::Deadline::afterMs(0));
  owner->events->onClosed(hpu::unavailable("gone"));
  owner->events.reset();
  (void)decodeNetHello(std::string_view(reinterpret_cast<const char*>(data), size));
  (void)decodeNetCard(std::string_view(reinterpret_cast<const char*>(data), size));
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  if (auto rail = rails::decode(frame); rail.ok()) {
    // What is understood is all that was said.
    if (!std::ranges::equal(rails::encode(*rail), frame)) abort();
    if (rail->windows.size() > rails::kMostParts || rail->doors.size() > rails::kMostRails) abort();
  }
  if (auto hello = rails::decodeHello(text); hello.ok() && rails::encodeHello(*hello) != text) abort();
  if (auto doors = rails::decodeDoors(text); doors.ok() && rails::encodeDoors(*doors) != text) abort();
  return 0;
}
