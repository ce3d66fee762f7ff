// SPDX-License-Identifier: Apache-2.0
#include "base/FileBytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "base/File.h"
#include "tests/unit/base/TemporaryFolder.h"

namespace hpu::base {
namespace {

TEST(FileBytes, AreWhatTheFileHadWhenItWasReadWhateverBecomesOfIt) {
  TemporaryFolder folder;
  const std::string path = folder.file("a");
  // In several pieces, the last of them no whole page.
  std::vector<uint8_t> bytes((9 << 20) + 123);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 31 + i / 4096);
  ASSERT_TRUE(writeFileAtomic(path, bytes.data(), bytes.size()).ok());
  auto file = FileBytes::read(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  {
    std::ofstream(path, std::ios::in | std::ios::out | std::ios::binary) << "other";
  }
  ASSERT_EQ(::truncate(path.c_str(), 3), 0);
  ASSERT_EQ((*file)->size(), bytes.size());
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), (*file)->data()));
  EXPECT_EQ(reinterpret_cast<uintptr_t>((*file)->data()) % 4096, 0u);
}

TEST(FileBytes, WhatIsNoRegularFileIsRefusedWithoutHanging) {
  TemporaryFolder folder;
  EXPECT_EQ(FileBytes::read(folder.file("none")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(FileBytes::read(folder.path()).status().code(), StatusCode::kInvalidArgument);
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  EXPECT_EQ(FileBytes::read(folder.file("pipe")).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(FileBytes::read("/dev/zero").status().code(), StatusCode::kInvalidArgument);
  std::ofstream(folder.file("empty"));
  auto empty = FileBytes::read(folder.file("empty"));
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ((*empty)->size(), 0u);
  EXPECT_NE((*empty)->data(), nullptr);
}

TEST(FileBytes, MoreThanTheHostHasIsAnErrorThatNamesTheFile) {
  TemporaryFolder folder;
  std::ofstream(folder.file("sparse"));
  if (::truncate(folder.file("sparse").c_str(), int64_t{1} << 43) != 0) GTEST_SKIP() << "no such large files here";
  auto file = FileBytes::read(folder.file("sparse"));
  EXPECT_EQ(file.status().code(), StatusCode::kResourceExhausted) << file.status().message();
  EXPECT_THAT(file.status().message(), ::testing::HasSubstr("sparse"));
}

}  // namespace
}  // namespace hpu::base
