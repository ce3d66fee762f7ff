// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/api/Handles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

namespace hpu::synapse {
namespace {

using testing::HasSubstr;
using Table = Handles<int, synStreamHandle>;

TEST(Handles, FindWhatWasInserted) {
  Table table(HandleKind::kStream);
  synStreamHandle one = table.insert(std::make_shared<int>(1)), two = table.insert(std::make_shared<int>(2));
  EXPECT_NE(one, two);
  EXPECT_EQ(*table.find(one), 1);
  EXPECT_EQ(*table.find(two), 2);
  EXPECT_EQ(table.size(), 2u);
}

TEST(Handles, TellStaleForeignNullAndInventedHandlesApart) {
  Table table(HandleKind::kStream);
  Handles<int, synEventHandle> events(HandleKind::kEvent);
  synStreamHandle stale = table.insert(std::make_shared<int>(1));
  EXPECT_EQ(*table.remove(stale), 1);
  EXPECT_EQ(table.remove(stale), nullptr);
  EXPECT_EQ(table.find(stale), nullptr);
  EXPECT_THAT(table.missing(stale).text(), HasSubstr("stale"));
  // Its slot is used again, with another generation.
  synStreamHandle next = table.insert(std::make_shared<int>(2));
  EXPECT_NE(next, stale);
  EXPECT_EQ(table.find(stale), nullptr);
  EXPECT_EQ(*table.find(next), 2);

  auto event = reinterpret_cast<synStreamHandle>(events.insert(std::make_shared<int>(3)));
  EXPECT_EQ(table.find(event), nullptr);
  EXPECT_THAT(table.missing(event).text(), HasSubstr("one of an event"));
  EXPECT_EQ(table.find(nullptr), nullptr);
  EXPECT_THAT(table.missing(nullptr).text(), HasSubstr("null"));
  auto invented = reinterpret_cast<synStreamHandle>(static_cast<uintptr_t>(0x7fff12345678));
  EXPECT_EQ(table.find(invented), nullptr);
  EXPECT_THAT(table.missing(invented).text(), HasSubstr("not one that this library gave"));
  EXPECT_EQ(table.missing(invented).status(), synInvalidArgument);
}

TEST(Handles, ClearEndsEveryHandleAndFreesEveryObject) {
  Table table(HandleKind::kStream);
  std::weak_ptr<int> watch;
  synStreamHandle handle = nullptr;
  {
    auto object = std::make_shared<int>(1);
    watch = object;
    handle = table.insert(std::move(object));
  }
  HandleTable::clearAll();
  EXPECT_TRUE(watch.expired());
  EXPECT_EQ(table.find(handle), nullptr);
  EXPECT_EQ(table.size(), 0u);
}

TEST(Handles, AnObjectInUseOutlivesItsHandle) {
  Table table(HandleKind::kStream);
  synStreamHandle handle = table.insert(std::make_shared<int>(7));
  std::shared_ptr<int> used = table.find(handle);
  table.removeIf([](const int& value) { return value == 7; });
  EXPECT_EQ(*used, 7);
}

TEST(Handles, ThreadsInsertFindAndRemoveAtOnce) {
  Table table(HandleKind::kStream);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        synStreamHandle handle = table.insert(std::make_shared<int>(t * 10000 + i));
        auto found = table.find(handle);
        if (!found || *found != t * 10000 + i) ++wrong;
        if (i % 3) {
          if (!table.remove(handle) || table.find(handle)) ++wrong;
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(table.size(), 8u * 667);
}

}  // namespace
}  // namespace hpu::synapse
