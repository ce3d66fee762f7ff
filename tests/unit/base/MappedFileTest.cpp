// SPDX-License-Identifier: Apache-2.0
#include "base/MappedFile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>

#include "TemporaryFolder.h"
#include "base/File.h"

namespace hpu::base {
namespace {

using ::testing::HasSubstr;

TEST(MappedFile, ShowsTheFilesBytesEvenAfterItIsUnlinked) {
  TemporaryFolder folder;
  std::string text = "weights";
  ASSERT_TRUE(writeFileAtomic(folder.file("w"), text).ok());
  auto file = MappedFile::open(folder.file("w"));
  ASSERT_TRUE(file.ok());
  std::filesystem::remove(folder.file("w"));
  ASSERT_EQ((*file)->size(), text.size());
  EXPECT_EQ(std::memcmp((*file)->data(), text.data(), text.size()), 0);
}

TEST(MappedFile, EmptyFileHasNoBytesButAnAddress) {
  TemporaryFolder folder;
  ASSERT_TRUE(writeFileAtomic(folder.file("e"), "").ok());
  auto file = MappedFile::open(folder.file("e"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->size(), 0u);
  EXPECT_NE((*file)->data(), nullptr);
}

TEST(MappedFile, RefusesWhatIsNotARegularFileWithoutHanging) {
  TemporaryFolder folder;
  auto directory = MappedFile::open(folder.path());
  EXPECT_EQ(directory.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(directory.status().message(), HasSubstr("a directory"));
  ASSERT_EQ(mkfifo(folder.file("pipe").c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::open(folder.file("pipe")).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(MappedFile::open("/dev/zero").status().code(), StatusCode::kInvalidArgument);
}

TEST(MappedFile, MissingFileIsNotFoundWithErrnosText) {
  auto file = MappedFile::open("/nowhere/w.bin");
  EXPECT_EQ(file.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(file.status().message(), "cannot open '/nowhere/w.bin': No such file or directory");
}

}  // namespace
}  // namespace hpu::base
