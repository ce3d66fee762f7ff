// SPDX-License-Identifier: Apache-2.0
// Messages to a rank of another node, over links that the test makes up.
#include "collectives/transport/net/Lanes.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hpu::collectives::net {
namespace {

/// Takes everything, or nothing.
class MadeUpLink : public Link {
 public:
  explicit MadeUpLink(bool up) : up_(up) {}
  void start(std::shared_ptr<LinkEvents> events) override { events_ = std::move(events); }
  bool send(std::span<const std::byte>) override {
    frames += up_;
    return up_;
  }
  bool write(uint64_t, const std::byte*, int64_t, const Window&, std::span<const std::byte>) override { return up_; }
  bool drained() override { return up_; }
  Window openWindow(std::byte*, int64_t) override { return {1, 1}; }
  void closeWindow(const Window&) override {}
  void close() override { events_ = nullptr; }
  std::string describe() const override { return "made up"; }
  int frames = 0;

 private:
  const bool up_;
  std::shared_ptr<LinkEvents> events_;
};

class Owner : public LanesOwner, public std::enable_shared_from_this<Owner> {
 public:
  std::shared_ptr<LanesOwner> self() override { return shared_from_this(); }
  std::shared_ptr<Link> dialPeer(int, std::shared_ptr<LinkEvents>) override {
    ++dials;
    return std::make_shared<MadeUpLink>(false);
  }
  base::Deadline dialDeadline() const override { return base::Deadline::afterMs(60'000); }
  FrameLimits limits() const override { return {}; }
  void wake() override { ++wakes; }
  void peerEnded(int, const EndItem&) override {}
  void peerBroken(int, const Status&) override {}
  int dials = 0, wakes = 0;
};

TEST(NetLanes, WhoWaitsForDeliveryHearsOfTheLinkThatThePeerDialled) {
  auto owner = std::make_shared<Owner>();
  Lanes lanes(*owner, 1, 0, 1024);
  const std::byte byte{};
  ASSERT_EQ(lanes.offer(Lane::kCollective, &byte, 1, {}), Offered::kCopied);
  EXPECT_EQ(owner->dials, 1);
  EXPECT_FALSE(lanes.delivered());
  const int before = owner->wakes;
  // Of two that dial each other the lower rank's link stays. It takes all at once, and has nothing to tell after that.
  auto link = std::make_shared<MadeUpLink>(true);
  lanes.dialled(link);
  EXPECT_EQ(link->frames, 1);
  EXPECT_GT(owner->wakes, before) << "it waits for ever";
  EXPECT_TRUE(lanes.delivered());
  lanes.finish({}, base::Deadline::afterMs(0));
}

TEST(NetLanes, TheLowerRanksOwnLinkStays) {
  auto owner = std::make_shared<Owner>();
  Lanes lanes(*owner, 0, 1, 1024);
  const std::byte byte{};
  ASSERT_EQ(lanes.offer(Lane::kCollective, &byte, 1, {}), Offered::kCopied);
  auto link = std::make_shared<MadeUpLink>(true);
  lanes.dialled(link);
  EXPECT_EQ(link->frames, 0);
  EXPECT_EQ(link.use_count(), 1);
  EXPECT_FALSE(lanes.delivered());
  lanes.finish({}, base::Deadline::afterMs(0));
}

}  // namespace
}  // namespace hpu::collectives::net
