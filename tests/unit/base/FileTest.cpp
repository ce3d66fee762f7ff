// SPDX-License-Identifier: Apache-2.0
#include "base/File.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "TemporaryFolder.h"
#include "base/TrustedFile.h"

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

TEST(AtomicFile, TakesEveryNameThatTheFileSystemTakes) {
  TemporaryFolder folder;
  for (size_t bytes : {1, 240, 246, 255}) {
    const std::string path = folder.file(std::string(bytes, 'n'));
    Status written = writeFileAtomic(path, "x");
    ASSERT_TRUE(written.ok()) << bytes << ": " << written.message();
    EXPECT_EQ(readTextFile(path).value(), "x");
  }
  EXPECT_EQ(AtomicFile::create(folder.file(std::string(256, 'n'))).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(entries(folder.path()), 4u);
}

TEST(AtomicFile, ErrorsNameTheFileThatWasAskedForAndNoOther) {
  EXPECT_EQ(writeFileAtomic("/nowhere/at/all", "x").message(),
            "cannot create '/nowhere/at/all': No such file or directory");
  TemporaryFolder folder;
  auto file = AtomicFile::create(folder.file("a"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(std::filesystem::create_directory(folder.file("a")));
  const Status taken = file->commit();
  EXPECT_THAT(taken.message(), HasSubstr("'" + folder.file("a") + "': Is a directory"));
  EXPECT_EQ(taken.message().find(".tmp"), std::string::npos) << taken.message();
}

TEST(AtomicFile, GoesAroundTemporaryFilesThatSomebodyElseHasLeft) {
  TemporaryFolder folder;
  // The counter's next value is not known; a temporary file shows where it is.
  auto first = AtomicFile::create(folder.file("a"));
  ASSERT_TRUE(first.ok());
  const std::string name = std::filesystem::directory_iterator(folder.path())->path().filename();
  const size_t number = name.rfind('-') + 1;
  const std::string next = name.substr(0, number) + std::to_string(std::stoul(name.substr(number)) + 1) + ".tmp";
  ASSERT_TRUE(std::filesystem::create_directory(folder.file(next)));
  ASSERT_TRUE(writeFileAtomic(folder.file("b"), "x").ok());
  EXPECT_TRUE(std::filesystem::is_directory(folder.file(next)));
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

/// A check by name and a read by name may see two files.
TEST(TrustedFile, IsReadFromTheDescriptorThatWasJudged) {
  TemporaryFolder folder;
  const std::string path = folder.file("code");
  ASSERT_TRUE(writeFileAtomic(path, "mine").ok());
  auto file = TrustedFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_TRUE(writeFileAtomic(folder.file("other"), "theirs").ok());
  ASSERT_EQ(::chmod(folder.file("other").c_str(), 0666), 0);
  ASSERT_EQ(::rename(folder.file("other").c_str(), path.c_str()), 0);
  auto bytes = file->read();
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  EXPECT_EQ(std::string((*bytes)->data(), (*bytes)->data() + (*bytes)->size()), "mine");
  EXPECT_EQ(TrustedFile::open(path).status().code(), StatusCode::kPermissionDenied);
}

TEST(TrustedFile, FollowsNoLinkAndWaitsForNoWriter) {
  TemporaryFolder folder;
  ASSERT_TRUE(writeFileAtomic(folder.file("code"), "mine").ok());
  ASSERT_EQ(::symlink(folder.file("code").c_str(), folder.file("link").c_str()), 0);
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  for (const char* name : {"link", "pipe", "."}) {
    Status status = TrustedFile::open(folder.file(name)).status();
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << name;
    EXPECT_THAT(status.message(), HasSubstr("no regular file")) << name;
  }
  EXPECT_EQ(TrustedFile::open(folder.file("none/code")).status().code(), StatusCode::kNotFound);
}

TEST(File, TrustedIsWhatOnlyThisUserAndRootCanWrite) {
  TemporaryFolder folder;
  const std::string path = folder.file("code");
  EXPECT_EQ(checkTrusted(path).code(), StatusCode::kNotFound);
  ASSERT_TRUE(writeFileAtomic(path, "x").ok());
  struct {
    mode_t folder, file;
    bool trusted;
  } const cases[] = {{0700, 0600, true},  {0755, 0644, true},  {0700, 0660, false}, {0700, 0602, false},
                     {0777, 0600, false}, {0770, 0600, false}, {01777, 0600, true}, {01777, 0622, false}};
  const std::string in = path.substr(0, path.rfind('/'));
  for (const auto& one : cases) {
    ASSERT_EQ(::chmod(in.c_str(), one.folder), 0);
    ASSERT_EQ(::chmod(path.c_str(), one.file), 0);
    Status status = checkTrusted(path);
    EXPECT_EQ(status.ok(), one.trusted) << std::oct << one.folder << " " << one.file << ": " << status.message();
    if (!one.trusted) EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  }
  ASSERT_EQ(::chmod(in.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(path.c_str(), 61002, 61002), 0);
    EXPECT_NE(checkTrusted(path).message().find("of user 61002"), std::string::npos);
  }
}

}  // namespace
}  // namespace hpu::base
