// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/Hbm.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace hpu::driver {
namespace {

constexpr int64_t kMiB = 1 << 20;

std::unique_ptr<Hbm> make(int64_t bytes) {
  auto hbm = Hbm::create(bytes);
  EXPECT_TRUE(hbm.ok()) << hbm.status().message();
  return std::move(*hbm);
}

TEST(Hbm, IsSparseAndReadsAsZeroWithoutBeingAllocated) {
  auto hbm = make(1024 * kMiB);
  EXPECT_EQ(hbm->residentBytes(), 0);
  std::vector<std::byte> out(64 * kMiB, std::byte{7});
  ASSERT_TRUE(hbm->copyOut(out.data(), Hbm::kBase, static_cast<int64_t>(out.size())).ok());
  EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_EQ(hbm->residentBytes(), 0);
  hbm->move(Hbm::kBase + 512 * kMiB, Hbm::kBase, 64 * kMiB);
  hbm->fill(Hbm::kBase, 0, 64 * kMiB);
  EXPECT_EQ(hbm->residentBytes(), 0);
}

TEST(Hbm, WhatWasNeverWrittenOfACopyTakesNoMemory) {
  constexpr int64_t kPage = 4096;
  for (const int64_t pages : {4, 63, 64, 65, 200}) {
    auto hbm = make(16 * kMiB);
    hbm->fill(Hbm::kBase, 0xab, 2 * kPage);  // The first page is before the range.
    hbm->fill(Hbm::kBase + (pages - 1) * kPage, 0xcd, 10 * kPage);
    const int64_t before = hbm->residentBytes();
    hbm->move(Hbm::kBase + 8 * kMiB + 5, Hbm::kBase + kPage + 5, (pages - 1) * kPage);
    // Two pages and the first bytes of a third, at an odd place.
    EXPECT_LE(hbm->residentBytes(), before + 4 * kPage) << pages;
    EXPECT_EQ(*hbm->at(Hbm::kBase + 8 * kMiB + 5), std::byte{0xab});
    EXPECT_EQ(*hbm->at(Hbm::kBase + 8 * kMiB + kPage), std::byte{0});
    EXPECT_EQ(*hbm->at(Hbm::kBase + 8 * kMiB + (pages - 2) * kPage), std::byte{0xcd});
  }
}

TEST(Hbm, DiscardGivesWholePagesBackAndSparesTheNeighbours) {
  auto hbm = make(16 * kMiB);
  hbm->fill(Hbm::kBase, 0xab, 8 * kMiB);
  EXPECT_GE(hbm->residentBytes(), 8 * kMiB);
  ASSERT_TRUE(hbm->discard(Hbm::kBase + 100, 4 * kMiB).ok());
  EXPECT_LE(hbm->residentBytes(), 4 * kMiB + 2 * 4096);
  EXPECT_EQ(*hbm->at(Hbm::kBase + 99), std::byte{0xab});
  EXPECT_EQ(*hbm->at(Hbm::kBase + 4 * kMiB + 100), std::byte{0xab});
  EXPECT_EQ(hbm->discard(Hbm::kBase + 16 * kMiB, 1).code(), StatusCode::kOutOfRange);
}

TEST(Hbm, ClearZeroesTheRangeAndNothingElseWithoutTakingMemory) {
  auto hbm = make(16 * kMiB);
  // Small and large ranges that begin and end anywhere in their pages, and have both kinds of pages inside.
  const std::vector<std::pair<int64_t, int64_t>> ranges = {
      {100, 1}, {5000, 4096}, {4095, 70000}, {8192, 1 << 20}, {1, 3 << 20}};
  for (const auto& [offset, bytes] : ranges) {
    ASSERT_TRUE(hbm->discard(Hbm::kBase, 16 * kMiB).ok());
    hbm->fill(Hbm::kBase, 0xab, kMiB);
    hbm->fill(Hbm::kBase + 2 * kMiB, 0xab, 4 * kMiB);
    const int64_t before = hbm->residentBytes();
    ASSERT_TRUE(hbm->clear(Hbm::kBase + static_cast<uint64_t>(offset), bytes).ok());
    EXPECT_LE(hbm->residentBytes(), before);
    std::vector<std::byte> out(6 * kMiB);
    ASSERT_TRUE(hbm->copyOut(out.data(), Hbm::kBase, 6 * kMiB).ok());
    for (int64_t i = 0; i < 6 * kMiB; ++i) {
      const bool isZero = (i >= offset && i < offset + bytes) || (i >= kMiB && i < 2 * kMiB);
      ASSERT_EQ(out[static_cast<size_t>(i)], isZero ? std::byte{0} : std::byte{0xab}) << i << " of " << offset;
    }
  }
  EXPECT_LE(hbm->residentBytes(), 3 * kMiB + 2 * 4096) << "whole pages of a large range are given back";
  EXPECT_EQ(hbm->clear(Hbm::kBase + 16 * kMiB, 1).code(), StatusCode::kOutOfRange);
  EXPECT_TRUE(hbm->clear(Hbm::kBase + 16 * kMiB, 0).ok());
}

TEST(Hbm, ContainsChecksBothEndsWithoutOverflow) {
  auto hbm = make(kMiB);
  EXPECT_TRUE(hbm->contains(Hbm::kBase, kMiB));
  EXPECT_TRUE(hbm->contains(Hbm::kBase + kMiB, 0));
  EXPECT_FALSE(hbm->contains(Hbm::kBase + 1, kMiB));
  EXPECT_FALSE(hbm->contains(Hbm::kBase - 1, 1));
  EXPECT_FALSE(hbm->contains(Hbm::kBase, -1));
  EXPECT_FALSE(hbm->contains(~uint64_t{0}, INT64_MAX));
}

TEST(Hbm, ImpossibleSizesAreRefused) {
  EXPECT_EQ(Hbm::create(0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Hbm::create(-1).status().code(), StatusCode::kInvalidArgument);
  auto huge = Hbm::create(int64_t{1} << 60);
  EXPECT_EQ(huge.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(huge.status().message().find("HPU_SIM_HBM_BYTES"), std::string::npos);
}

TEST(Hbm, BudgetCountsOnlyWhatIsNotYetWritten) {
  auto hbm = Hbm::create(64 * kMiB, 8 * kMiB).value();
  EXPECT_TRUE(hbm->checkBudget(Hbm::kBase, 8 * kMiB).ok());
  Status status = hbm->checkBudget(Hbm::kBase, 9 * kMiB);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("budget of 8 MiB"), std::string::npos) << status.message();
  hbm->fill(Hbm::kBase, 1, 6 * kMiB);
  EXPECT_TRUE(hbm->checkBudget(Hbm::kBase, 8 * kMiB).ok());
  EXPECT_FALSE(hbm->checkBudget(Hbm::kBase + 4 * kMiB, 5 * kMiB).ok());
  ASSERT_TRUE(hbm->discard(Hbm::kBase, 6 * kMiB).ok());
  EXPECT_TRUE(hbm->checkBudget(Hbm::kBase + 20 * kMiB, 8 * kMiB).ok());
}

TEST(Hbm, OthersThatTakeTheHostsMemoryCountToo) {
  int64_t left = 1024 * kMiB;
  auto hbm = Hbm::create(512 * kMiB, 300 * kMiB, [&] { return left; }).value();
  EXPECT_TRUE(hbm->checkBudget(Hbm::kBase, 200 * kMiB).ok());
  left = 100 * kMiB;
  Status status = hbm->checkBudget(Hbm::kBase, 200 * kMiB);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("has 100 MiB to give"), std::string::npos) << status.message();
  EXPECT_TRUE(hbm->checkBudget(Hbm::kBase, 90 * kMiB).ok());
  // What is written already takes nothing more.
  hbm->fill(Hbm::kBase, 1, 80 * kMiB);
  left = 0;
  EXPECT_TRUE(hbm->checkBudget(Hbm::kBase, 80 * kMiB).ok());
  EXPECT_FALSE(hbm->checkBudget(Hbm::kBase, 81 * kMiB).ok());
  // Small pieces are looked at together.
  int refused = 0;
  for (int i = 0; i < 128; ++i) refused += !hbm->checkBudget(Hbm::kBase + 100 * kMiB + i * kMiB, kMiB).ok();
  EXPECT_EQ(refused, 2);
  // Not known is no reason to refuse.
  left = -1;
  EXPECT_TRUE(hbm->checkBudget(Hbm::kBase, 200 * kMiB).ok());
}

TEST(Hbm, DefaultBudgetIsPartOfWhatTheHostHas) {
  int64_t budget = hostMemoryBudget().value();
  EXPECT_GT(budget, 0);
  EXPECT_LT(budget, int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE));
  setenv("HPU_SIM_HOST_BYTES", "123K", 1);
  EXPECT_EQ(hostMemoryBudget().value(), 123 << 10);
  unsetenv("HPU_SIM_HOST_BYTES");
}

TEST(Hbm, FilesThatAControlGroupCachesAreNotTaken) {
  auto folder = std::filesystem::temp_directory_path() / ("hbm_test." + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  auto write = [&](const char* name, const char* text) { std::ofstream(folder / name) << text; };
  EXPECT_EQ(groupMemoryLeft(folder.string()), -1);
  write("memory.current", "900\n");
  write("memory.max", "max\n");
  EXPECT_EQ(groupMemoryLeft(folder.string()), -1);
  write("memory.max", "1000\n");
  EXPECT_EQ(groupMemoryLeft(folder.string()), 100);
  write("memory.stat",
        "anon 300\nfile 600\nshmem 70\ninactive_anon 11\nactive_anon 12\n"
        "inactive_file 500\nactive_file 30\nworkingset_refault_file 7\n");
  EXPECT_EQ(groupMemoryLeft(folder.string()), 630);
  write("memory.stat", "inactive_file 5000\n");
  EXPECT_EQ(groupMemoryLeft(folder.string()), 1000);
  write("memory.stat", "");
  write("memory.current", "1200\n");
  EXPECT_EQ(groupMemoryLeft(folder.string()), 0);
  std::filesystem::remove_all(folder);
}

/// Random copies, fills and moves with holes in between, against a plain array.
TEST(Hbm, AgreesWithAPlainArray) {
  constexpr int64_t kBytes = 4 * kMiB;
  auto hbm = make(kBytes);
  std::vector<uint8_t> model(kBytes, 0);
  std::mt19937 random(7);
  for (int step = 0; step < 300; ++step) {
    int64_t bytes = random() % (step % 4 ? 300000 : 900);
    int64_t a = random() % (kBytes - bytes), b = random() % (kBytes - bytes);
    switch (random() % 4) {
      case 0: {
        std::vector<uint8_t> data(bytes);
        for (auto& x : data) x = static_cast<uint8_t>(random());
        ASSERT_TRUE(hbm->copyIn(Hbm::kBase + a, data.data(), bytes).ok());
        std::copy(data.begin(), data.end(), model.begin() + a);
        break;
      }
      case 1: {
        auto value = static_cast<uint8_t>(random() % 3);
        hbm->fill(Hbm::kBase + a, value, bytes);
        std::fill(model.begin() + a, model.begin() + a + bytes, value);
        break;
      }
      case 2: {
        hbm->move(Hbm::kBase + a, Hbm::kBase + b, bytes);
        std::vector<uint8_t> copy(model.begin() + b, model.begin() + b + bytes);
        std::copy(copy.begin(), copy.end(), model.begin() + a);
        break;
      }
      default: {
        std::vector<uint8_t> out(bytes, 0xee);
        ASSERT_TRUE(hbm->copyOut(out.data(), Hbm::kBase + a, bytes).ok());
        ASSERT_TRUE(std::equal(out.begin(), out.end(), model.begin() + a)) << "step " << step;
      }
    }
  }
  std::vector<uint8_t> all(kBytes);
  ASSERT_TRUE(hbm->copyOut(all.data(), Hbm::kBase, kBytes).ok());
  EXPECT_TRUE(all == model);
}

}  // namespace
}  // namespace hpu::driver
