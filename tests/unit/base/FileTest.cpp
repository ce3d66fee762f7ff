// SPDX-License-Identifier: Apache-2.0
#include "base/File.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "TemporaryFolder.h"

namespace hpu::base {
namespace {

using ::testing::HasSubstr;

size_t entries(const std::string& folder) {
  size_t count = 0;
  for ([[maybe_unused]] auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

TEST(File, ReadsBackWhatWasWritten) {
  TemporaryFolder folder;
  std::string text(300000, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7);
  ASSERT_TRUE(writeFileAtomic(folder.file("a"), text).ok());
  EXPECT_EQ(readTextFile(folder.file("a")).value(), text);
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(File, ReadsAnEmptyFileAndOneWithoutASize) {
  TemporaryFolder folder;
  ASSERT_TRUE(writeFileAtomic(folder.file("empty"), "").ok());
  EXPECT_TRUE(readFile(folder.file("empty")).value().empty());
  EXPECT_THAT(readTextFile("/proc/self/status").value(), HasSubstr("Pid:"));
}

TEST(File, MissingFileErrorNamesThePathAndTheReason) {
  auto result = readFile("/nowhere/model.recipe");
  EXPECT_EQ(result.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(result.status().message(), HasSubstr("/nowhere/model.recipe"));
  EXPECT_THAT(result.status().message(), HasSubstr("No such file"));
}

TEST(File, FolderIsNotAFile) {
  TemporaryFolder folder;
  EXPECT_EQ(readFile(folder.path()).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(writeFileAtomic(folder.path(), "x").code(), StatusCode::kInvalidArgument);
}

TEST(File, LimitIsInclusive) {
  TemporaryFolder folder;
  ASSERT_TRUE(writeFileAtomic(folder.file("a"), "12345").ok());
  EXPECT_EQ(readTextFile(folder.file("a"), 5).value(), "12345");
  EXPECT_EQ(readTextFile(folder.file("a"), 4).status().code(), StatusCode::kResourceExhausted);
}

TEST(AtomicFile, ADeviceIsWrittenToAndNotReplaced) {
  ASSERT_TRUE(writeFileAtomic("/dev/null", "x").ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  Status full = writeFileAtomic("/dev/full", "x");
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted) << full.message();
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST(AtomicFile, BehindALinkTheFileIsReplacedAndTheLinkStays) {
  TemporaryFolder folder;
  ASSERT_TRUE(writeFileAtomic(folder.file("real"), "old").ok());
  std::filesystem::create_symlink("real", folder.file("link"));
  ASSERT_TRUE(writeFileAtomic(folder.file("link"), "new").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file("link")));
  EXPECT_EQ(readTextFile(folder.file("real")).value(), "new");
}

TEST(AtomicFile, AnEmptyNameIsRefused) {
  EXPECT_EQ(writeFileAtomic("", "x").code(), StatusCode::kInvalidArgument);
}

TEST(AtomicFile, WithoutCommitTheOldFileStays) {
  TemporaryFolder folder;
  ASSERT_TRUE(writeFileAtomic(folder.file("a"), "old").ok());
  {
    auto file = AtomicFile::create(folder.file("a"));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->append("new", 3).ok());
    EXPECT_EQ(readTextFile(folder.file("a")).value(), "old");
  }
  EXPECT_EQ(readTextFile(folder.file("a")).value(), "old");
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(AtomicFile, CommitReplacesOnceAndLeavesNoTemporary) {
  TemporaryFolder folder;
  ASSERT_TRUE(writeFileAtomic(folder.file("a"), "old").ok());
  auto file = AtomicFile::create(folder.file("a"));
  ASSERT_TRUE(file.ok());
  AtomicFile moved = std::move(*file);
  ASSERT_TRUE(moved.append("ne", 2).ok());
  ASSERT_TRUE(moved.append("w", 1).ok());
  ASSERT_TRUE(moved.commit().ok());
  EXPECT_EQ(moved.commit().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(readTextFile(folder.file("a")).value(), "new");
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(AtomicFile, MissingFolderIsReportedAtCreation) {
  auto file = AtomicFile::create("/nowhere/at/all/file");
  EXPECT_EQ(file.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(file.status().message(), HasSubstr("/nowhere/at/all/file"));
}

}  // namespace
}  // namespace hpu::base
