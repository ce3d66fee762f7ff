// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "base/File.h"
#include "tools/common/Npy.h"
#include "tools/common/TensorProtoIo.h"
#include "unit/base/TemporaryFolder.h"

namespace {

using hpu::ElementType;
using hpu::tools::HostTensor;
using ::testing::HasSubstr;

HostTensor floats(const hpu::Shape& shape, std::vector<float> values) {
  HostTensor tensor;
  tensor.type = {ElementType::kF32, shape};
  tensor.bytes.resize(values.size() * 4);
  memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

/// A TensorProto written by hand: dims 2, 3; data type f32 (1); raw_data.
std::vector<uint8_t> handMadeProto() {
  std::vector<uint8_t> bytes = {0x08, 2, 0x08, 3, 0x10, 1, 0x42, 1, 'x', 0x4A, 24};
  for (int i = 0; i < 6; ++i) {
    float value = static_cast<float>(i);
    const auto* raw = reinterpret_cast<const uint8_t*>(&value);
    bytes.insert(bytes.end(), raw, raw + 4);
  }
  return bytes;
}

TEST(TensorProto, ReadsRawDataNameAndDims) {
  auto bytes = handMadeProto();
  auto tensor = hpu::tools::parseTensorProto(bytes.data(), bytes.size());
  ASSERT_TRUE(tensor.ok()) << tensor.status().message();
  EXPECT_EQ(tensor->type.toString(), "2x3xf32");
  EXPECT_EQ(tensor->name, "x");
  EXPECT_EQ(tensor->number(5), 5.0);
}

TEST(TensorProto, ReadsPackedAndUnpackedTypedFields) {
  // dims packed [2]; type i64 (7); int64_data packed -1, 300.
  std::vector<uint8_t> packed = {0x0A, 1,    2,    0x10, 7,    0x3A, 12, 0xFF, 0xFF, 0xFF,
                                 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1,  0xAC, 2};
  auto tensor = hpu::tools::parseTensorProto(packed.data(), packed.size());
  ASSERT_TRUE(tensor.ok()) << tensor.status().message();
  EXPECT_EQ(tensor->number(0), -1);
  EXPECT_EQ(tensor->number(1), 300);
  // f16 (10) in int32_data: 0x3C00 is 1.0.
  std::vector<uint8_t> half = {0x08, 1, 0x10, 10, 0x28, 0x80, 0x78};
  tensor = hpu::tools::parseTensorProto(half.data(), half.size());
  ASSERT_TRUE(tensor.ok()) << tensor.status().message();
  EXPECT_EQ(tensor->number(0), 1.0);
}

TEST(TensorProto, EveryTruncationIsAnErrorAndNeverACrash) {
  auto bytes = handMadeProto();
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(hpu::tools::parseTensorProto(bytes.data(), size).ok()) << size;
}

TEST(TensorProto, RefusesDimsThatTheDataDoesNotBack) {
  // dims 2^40 with no data must not allocate.
  std::vector<uint8_t> huge = {0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0x10, 1};
  auto tensor = hpu::tools::parseTensorProto(huge.data(), huge.size());
  EXPECT_FALSE(tensor.ok());
  std::vector<uint8_t> negative = {0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1, 0x10, 1};
  tensor = hpu::tools::parseTensorProto(negative.data(), negative.size());
  ASSERT_FALSE(tensor.ok());
  EXPECT_THAT(tensor.status().message(), HasSubstr("negative"));
}

TEST(TensorProto, WritesWhatItReads) {
  HostTensor tensor = floats({3}, {1, -2, 0.5});
  tensor.name = "weights";
  auto bytes = hpu::tools::serializeTensorProto(tensor);
  auto again = hpu::tools::parseTensorProto(bytes.data(), bytes.size());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->bytes, tensor.bytes);
  EXPECT_EQ(again->name, "weights");
  EXPECT_EQ(again->type, tensor.type);
}

std::vector<uint8_t> npyWith(const std::string& header, std::vector<uint8_t> data) {
  std::string text = "\x93NUMPY";
  text += '\1';
  text += '\0';
  text += static_cast<char>(header.size());
  text += '\0';
  std::vector<uint8_t> bytes(text.begin(), text.end());
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

TEST(Npy, ReadsTheHeaderThatNumpyWrites) {
  auto bytes = npyWith("{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }          \n",
                       {1, 0, 0, 0, 255, 255, 255, 255});
  auto tensor = hpu::tools::parseNpy(bytes.data(), bytes.size());
  ASSERT_TRUE(tensor.ok()) << tensor.status().message();
  EXPECT_EQ(tensor->type.toString(), "2xi32");
  EXPECT_EQ(tensor->number(1), -1);
}

TEST(Npy, TurnsFortranOrderRound) {
  auto bytes = npyWith("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n", {0, 10, 1, 11, 2, 12});
  auto tensor = hpu::tools::parseNpy(bytes.data(), bytes.size());
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->bytes, (std::vector<uint8_t>{0, 1, 2, 10, 11, 12}));
}

TEST(Npy, RefusesObjectsBigEndianAndTruncation) {
  auto object = npyWith("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", {0});
  EXPECT_THAT(hpu::tools::parseNpy(object.data(), object.size()).status().message(), HasSubstr("'|O'"));
  auto bigEndian = npyWith("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }\n", {0, 0, 0, 0});
  EXPECT_FALSE(hpu::tools::parseNpy(bigEndian.data(), bigEndian.size()).ok());
  auto good = hpu::tools::serializeNpy(floats({2, 2}, {1, 2, 3, 4}));
  EXPECT_TRUE(hpu::tools::parseNpy(good.data(), good.size()).ok());
  for (size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(hpu::tools::parseNpy(good.data(), size).ok()) << size;
}

TEST(Npy, AnEmptyArrayIsReadAgainAsTheTypeThatItIsWrittenIn) {
  // As f32 the same sizes without the 0 are more than a tensor may have.
  auto bytes = npyWith("{'descr': '|V2', 'fortran_order': False, 'shape': (4000000, 100000, 0), }\n", {});
  auto tensor = hpu::tools::parseNpy(bytes.data(), bytes.size());
  ASSERT_TRUE(tensor.ok()) << tensor.status().message();
  auto again = hpu::tools::serializeNpy(*tensor);
  EXPECT_TRUE(hpu::tools::parseNpy(again.data(), again.size()).ok());
  auto far = npyWith("{'descr': '|u1', 'fortran_order': False, 'shape': (4000000, 1000000, 0), }\n", {});
  EXPECT_THAT(hpu::tools::parseNpy(far.data(), far.size()).status().message(), HasSubstr("1 TiB"));
}

TEST(Npy, WritesScalarsVectorsAndBf16AsF32) {
  for (const hpu::Shape& shape : {hpu::Shape{}, hpu::Shape{1}, hpu::Shape{1, 1}}) {
    auto bytes = hpu::tools::serializeNpy(floats(shape, {2.5}));
    EXPECT_EQ(bytes.size() % 64, 4u) << "the data starts at a multiple of 64";
    auto again = hpu::tools::parseNpy(bytes.data(), bytes.size());
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(again->type.shape, shape);
    EXPECT_EQ(again->number(0), 2.5);
  }
  HostTensor half;
  half.type = {ElementType::kBF16, {1}};
  half.bytes = {0x80, 0x3F};
  auto bytes = hpu::tools::serializeNpy(half);
  auto again = hpu::tools::parseNpy(bytes.data(), bytes.size());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->type.element, ElementType::kF32);
  EXPECT_EQ(again->number(0), 1.0);
}

TEST(Npz, KeepsNamesAndOrderAndChecksTheChecksum) {
  hpu::base::TemporaryFolder folder;
  std::string path = folder.path() + "/a.npz";
  HostTensor b = floats({2}, {1, 2}), a = floats({1}, {3});
  b.name = "b";
  a.name = "a";
  ASSERT_TRUE(hpu::tools::writeNpz(path, {b, a}).ok());
  auto tensors = hpu::tools::readNpz(path);
  ASSERT_TRUE(tensors.ok()) << tensors.status().message();
  ASSERT_EQ(tensors->size(), 2u);
  EXPECT_EQ((*tensors)[0].name, "b");
  EXPECT_EQ((*tensors)[1].number(0), 3.0);
  auto one = hpu::tools::readTensorFile(path + ":a");
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_THAT(hpu::tools::readTensorFile(path + ":c").status().message(), HasSubstr("it has b, a"));

  auto bytes = hpu::base::readFile(path);
  ASSERT_TRUE(bytes.ok());
  (*bytes)[160] ^= 1;  // Inside the first array's data or header.
  ASSERT_TRUE(hpu::base::writeFileAtomic(path, bytes->data(), bytes->size()).ok());
  auto damaged = hpu::tools::readNpz(path);
  ASSERT_FALSE(damaged.ok());
  EXPECT_THAT(damaged.status().message(), HasSubstr("'b.npy'"));
}

TEST(Npz, EveryTruncationIsAnErrorAndNeverACrash) {
  hpu::base::TemporaryFolder folder;
  std::string path = folder.path() + "/a.npz";
  HostTensor a = floats({4}, {1, 2, 3, 4});
  a.name = "a";
  ASSERT_TRUE(hpu::tools::writeNpz(path, {a}).ok());
  auto bytes = hpu::base::readFile(path);
  ASSERT_TRUE(bytes.ok());
  for (size_t size = 0; size < bytes->size(); ++size) {
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<char*>(bytes->data()), size);
    EXPECT_FALSE(hpu::tools::readNpz(path).ok()) << size;
  }
}

/// Flips bytes of valid files at random places; readers may refuse or accept, but stay in their
/// bounds (what the sanitizer builds check) and never make a tensor whose bytes do not fit its
/// type.
TEST(TensorFiles, DamagedBytesNeverLeaveTheFile) {
  HostTensor tensor = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  tensor.name = "x";
  const std::vector<uint8_t> files[] = {hpu::tools::serializeTensorProto(tensor), hpu::tools::serializeNpy(tensor)};
  uint32_t state = 12345;
  auto next = [&] { return state = state * 1664525 + 1013904223, state >> 8; };
  for (int round = 0; round < 4000; ++round) {
    for (int kind = 0; kind < 2; ++kind) {
      std::vector<uint8_t> bytes = files[kind];
      for (uint32_t flips = 1 + next() % 3; flips > 0; --flips)
        bytes[next() % bytes.size()] = static_cast<uint8_t>(next());
      auto read = kind == 0 ? hpu::tools::parseTensorProto(bytes.data(), bytes.size())
                            : hpu::tools::parseNpy(bytes.data(), bytes.size());
      EXPECT_TRUE(!read.ok() || static_cast<int64_t>(read->bytes.size()) == read->type.bytes());
    }
  }
}

TEST(Npz, DamagedBytesNeverLeaveTheFile) {
  hpu::base::TemporaryFolder folder;
  std::string path = folder.file("a.npz");
  HostTensor a = floats({4}, {1, 2, 3, 4});
  a.name = "a";
  ASSERT_TRUE(hpu::tools::writeNpz(path, {a}).ok());
  auto valid = hpu::base::readFile(path);
  ASSERT_TRUE(valid.ok());
  uint32_t state = 99;
  auto next = [&] { return state = state * 1664525 + 1013904223, state >> 8; };
  for (int round = 0; round < 1000; ++round) {
    std::vector<uint8_t> bytes = *valid;
    bytes[next() % bytes.size()] = static_cast<uint8_t>(next());
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<char*>(bytes.data()), bytes.size());
    auto read = hpu::tools::readNpz(path);
    if (!read.ok()) continue;
    for (const HostTensor& tensor : *read) EXPECT_EQ(static_cast<int64_t>(tensor.bytes.size()), tensor.type.bytes());
  }
}

}  // namespace
