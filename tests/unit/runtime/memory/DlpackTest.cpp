// SPDX-License-Identifier: Apache-2.0
// Tensors from and to other frameworks: a producer made by hand, and round trips.
#include "hpu/dlpack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "hpu/stream.h"
#include "runtime/memory/DlpackLayout.h"

namespace hpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// What another framework hands over; it counts what becomes of it.
struct Producer {
  std::vector<float> data = std::vector<float>(24, 1.5f);
  std::vector<int64_t> shape{2, 3, 4}, strides{12, 4, 1};
  DLManagedTensor managed;
  int deleted = 0;

  Producer() {
    managed.tensor.data = data.data();
    managed.tensor.device = {dlpack::kCpu, 0};
    managed.tensor.rank = 3;
    managed.tensor.type = {dlpack::kFloat, 32, 1};
    managed.tensor.shape = shape.data();
    managed.tensor.strides = strides.data();
    managed.context = this;
    managed.deleter = [](DLManagedTensor* self) { ++static_cast<Producer*>(self->context)->deleted; };
  }
  Producer(const Producer&) = delete;
};

TEST(Dlpack, TakesATensorOverAndCallsItsDeleterOnce) {
  Producer producer;
  SharedTensor tensor = fromDlpack(&producer.managed).value();
  EXPECT_TRUE(tensor.valid());
  EXPECT_EQ(tensor.type(), ElementType::kF32);
  EXPECT_THAT(tensor.shape(), ElementsAre(2, 3, 4));
  EXPECT_EQ(tensor.bytes(), 96);
  EXPECT_EQ(tensor.data(), producer.data.data());
  EXPECT_FALSE(tensor.onDevice());
  EXPECT_FALSE(tensor.buffer().valid());
  SharedTensor handle = tensor;
  tensor = SharedTensor();
  EXPECT_EQ(producer.deleted, 0);
  handle = SharedTensor();
  EXPECT_EQ(producer.deleted, 1);
}

TEST(Dlpack, RefusesWhatIsNoDenseTensorAndLetsItGo) {
  struct Case {
    const char* what;
    std::function<void(Producer&)> change;
    StatusCode code;
    const char* says;
  };
  static int64_t minusOne[] = {2, -1, 4}, huge[] = {int64_t{1} << 40, int64_t{1} << 40, 4};
  const StatusCode invalid = StatusCode::kInvalidArgument, missing = StatusCode::kUnimplemented;
  const std::vector<Case> cases = {
      {"transposed", [](Producer& p) { p.strides = {1, 2, 6}, p.managed.tensor.strides = p.strides.data(); }, invalid,
       "contiguous"},
      {"a stride too large", [](Producer& p) { p.strides[0] = 13; }, invalid, "dimension 0"},
      {"backwards", [](Producer& p) { p.strides[2] = -1; }, invalid, "stride -1"},
      {"broadcast", [](Producer& p) { p.strides[1] = 0; }, invalid, "stride 0"},
      {"negative rank", [](Producer& p) { p.managed.tensor.rank = -1; }, invalid, "-1 dimensions"},
      {"rank that is damage", [](Producer& p) { p.managed.tensor.rank = INT32_MAX; }, invalid, "dimensions"},
      {"no shape", [](Producer& p) { p.managed.tensor.shape = nullptr; }, invalid, "no shape"},
      {"negative dimension", [](Producer& p) { p.managed.tensor.shape = minusOne; }, invalid, "dimension 1 is -1"},
      {"overflow", [](Producer& p) { p.managed.tensor.shape = huge; }, invalid, "too many bytes"},
      {"no data", [](Producer& p) { p.managed.tensor.data = nullptr; }, invalid, "null"},
      {"offset", [](Producer& p) { p.managed.tensor.byteOffset = UINT64_MAX - 5; }, invalid, "offset"},
      {"lanes", [](Producer& p) { p.managed.tensor.type.lanes = 4; }, invalid, "4 lanes"},
      {"no lanes", [](Producer& p) { p.managed.tensor.type.lanes = 0; }, invalid, "0 lanes"},
      {"complex", [](Producer& p) { p.managed.tensor.type = {dlpack::kComplex, 64, 1}; }, missing, "complex64"},
      {"int4", [](Producer& p) { p.managed.tensor.type = {dlpack::kInt, 4, 1}; }, missing, "int4"},
      {"a later type", [](Producer& p) { p.managed.tensor.type = {10, 8, 1}; }, missing, "type code 10"},
      {"CUDA", [](Producer& p) { p.managed.tensor.device = {2, 1}; }, missing, "CUDA 1"},
      {"an unknown device", [](Producer& p) { p.managed.tensor.device = {99, 0}; }, missing, "device type 99"},
      {"a device below", [](Producer& p) { p.managed.tensor.device = {-7, 0}; }, missing, "device type -7"},
      {"another's device", [](Producer& p) { p.managed.tensor.device = {dlpack::kExtDev, 0}; }, missing, "extension"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    Producer producer;
    one.change(producer);
    auto tensor = fromDlpack(&producer.managed);
    EXPECT_EQ(tensor.status().code(), one.code);
    EXPECT_THAT(tensor.status().message(), HasSubstr(one.says));
    EXPECT_EQ(producer.deleted, 1);
  }
  EXPECT_EQ(fromDlpack(nullptr).status().code(), invalid);
  Producer kept;
  kept.managed.deleter = nullptr;  // Nobody wants to know.
  kept.managed.tensor.rank = -1;
  EXPECT_EQ(fromDlpack(&kept.managed).status().code(), invalid);
  kept.managed.tensor.rank = 3;
  EXPECT_TRUE(fromDlpack(&kept.managed).ok());
}

TEST(Dlpack, TakesAnyStridesOfHostMemoryWhenItIsToldTo) {
  for (const std::vector<int64_t>& strides : std::vector<std::vector<int64_t>>{{1, 2, 6}, {12, 4, -1}, {12, 0, 1}}) {
    Producer producer;
    producer.strides = strides;
    producer.managed.tensor.byteOffset = 12;
    {
      SharedTensor tensor = fromDlpack(&producer.managed, DlpackStrides::kAny).value();
      EXPECT_EQ(tensor.strides(), strides);
      EXPECT_EQ(tensor.bytes(), 96);
      EXPECT_EQ(tensor.data(), producer.data.data() + 3);
      DLManagedTensor* again = toDlpack(tensor).value();
      EXPECT_EQ(std::vector<int64_t>(again->tensor.strides, again->tensor.strides + 3), strides);
      again->deleter(again);
      EXPECT_EQ(producer.deleted, 0);
    }
    EXPECT_EQ(producer.deleted, 1);
  }
  // Row-major order is none, as elsewhere.
  Producer dense;
  EXPECT_TRUE(fromDlpack(&dense.managed, DlpackStrides::kAny)->strides().empty());
  for (int64_t stride : {INT64_MIN, INT64_MAX, int64_t{1} << 61, -(int64_t{1} << 50)}) {
    Producer producer;
    producer.strides[0] = stride;
    Status status = fromDlpack(&producer.managed, DlpackStrides::kAny).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << stride;
    EXPECT_THAT(status.message(), HasSubstr("end of the address space"));
    EXPECT_EQ(producer.deleted, 1);
  }
  float value = 0;
  int released = 0;
  EXPECT_EQ(SharedTensor::ofHost(&value, ElementType::kF32, {5, 1}, {0, 7}, [&] { ++released; })->strides().size(), 2u);
  EXPECT_THAT(SharedTensor::ofHost(&value, ElementType::kF32, {5}, {0, 7}, [&] { ++released; }).status().message(),
              HasSubstr("2 strides were given for the 1 dimensions"));
  EXPECT_EQ(released, 2);
}

TEST(Dlpack, PinnedMemoryOfOtherAcceleratorsIsTheHosts) {
  for (int32_t place : {dlpack::kCudaHost, dlpack::kRocmHost}) {
    Producer producer;
    producer.managed.tensor.device.type = place;
    EXPECT_EQ(fromDlpack(&producer.managed)->data(), producer.data.data());
  }
}

TEST(Dlpack, KnowsRowMajorOrderHoweverItIsSaid) {
  Producer bare;
  bare.managed.tensor.strides = nullptr;
  EXPECT_EQ(fromDlpack(&bare.managed).value().bytes(), 96);

  Producer ones;  // Dimensions of one element may have any stride.
  ones.shape = {1, 24, 1};
  ones.strides = {77, 1, -5};
  ones.managed.tensor.shape = ones.shape.data();
  ones.managed.tensor.strides = ones.strides.data();
  EXPECT_THAT(fromDlpack(&ones.managed).value().shape(), ElementsAre(1, 24, 1));

  Producer empty;  // So may empty tensors, which need no data.
  empty.shape = {int64_t{1} << 40, 0, int64_t{1} << 40};
  empty.strides = {9, 9, 9};
  empty.managed.tensor.shape = empty.shape.data();
  empty.managed.tensor.strides = empty.strides.data();
  empty.managed.tensor.data = nullptr;
  SharedTensor tensor = fromDlpack(&empty.managed).value();
  EXPECT_EQ(tensor.bytes(), 0);
  EXPECT_EQ(tensor.data(), nullptr);
  DLManagedTensor* out = toDlpack(tensor).value();
  EXPECT_EQ(out->tensor.shape[2], int64_t{1} << 40);
  out->deleter(out);

  Producer scalar;
  scalar.managed.tensor.rank = 0;
  scalar.managed.tensor.shape = scalar.managed.tensor.strides = nullptr;
  EXPECT_EQ(fromDlpack(&scalar.managed).value().bytes(), 4);

  Producer part;
  part.shape = {2, 3};
  part.strides = {3, 1};
  part.managed.tensor.rank = 2;
  part.managed.tensor.byteOffset = 16;
  EXPECT_EQ(fromDlpack(&part.managed).value().data(), part.data.data() + 4);
}

TEST(Dlpack, KeepsThePointerThereAndBackForEveryElementType) {
  struct Known {
    ElementType type;
    uint8_t code, bits;
  };
  for (Known known : std::vector<Known>{{ElementType::kF16, 2, 16},
                                        {ElementType::kF32, 2, 32},
                                        {ElementType::kF64, 2, 64},
                                        {ElementType::kBF16, 4, 16},
                                        {ElementType::kI8, 0, 8},
                                        {ElementType::kI16, 0, 16},
                                        {ElementType::kI32, 0, 32},
                                        {ElementType::kI64, 0, 64},
                                        {ElementType::kU8, 1, 8},
                                        {ElementType::kU16, 1, 16},
                                        {ElementType::kU32, 1, 32},
                                        {ElementType::kU64, 1, 64},
                                        {ElementType::kBool, 6, 8}}) {
    SCOPED_TRACE(elementTypeName(known.type));
    alignas(8) char memory[64] = {};
    int released = 0;
    SharedTensor first = SharedTensor::ofHost(memory, known.type, {2, 3}, [&] { ++released; }).value();
    DLManagedTensor* out = toDlpack(first).value();
    EXPECT_EQ(out->tensor.data, memory);
    EXPECT_EQ(out->tensor.byteOffset, 0u);
    EXPECT_EQ(out->tensor.device.type, 1);
    EXPECT_EQ(out->tensor.type.code, known.code);
    EXPECT_EQ(out->tensor.type.bits, known.bits);
    EXPECT_EQ(out->tensor.type.lanes, 1);
    EXPECT_EQ(std::vector<int64_t>(out->tensor.shape, out->tensor.shape + 2), (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(std::vector<int64_t>(out->tensor.strides, out->tensor.strides + 2), (std::vector<int64_t>{3, 1}));
    first = SharedTensor();
    SharedTensor back = fromDlpack(out).value();
    EXPECT_EQ(back.data(), memory);
    EXPECT_EQ(back.type(), known.type);
    EXPECT_EQ(released, 0);
    back = SharedTensor();
    EXPECT_EQ(released, 1);
  }
  for (ElementType type : {ElementType::kF8E4M3, ElementType::kF8E5M2, ElementType::kF8E4M3Ieee}) {
    char memory[8] = {};
    Status status = toDlpack(SharedTensor::ofHost(memory, type, {8}).value()).status();
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
    EXPECT_THAT(status.message(), HasSubstr(std::string(elementTypeName(type))));
  }
}

TEST(Dlpack, GivesADevicesMemoryOutAndTakesItBack) {
  DeviceOptions options;
  options.hbmBytes = 16 << 20;
  Device device = Device::open(options).value();
  Stream stream = Stream::create(device).value();
  Buffer buffer = device.allocate(1024, "lent").value();
  ASSERT_TRUE(stream.fill(buffer, 7, 1024).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  SharedTensor tensor = SharedTensor::ofBuffer(buffer, ElementType::kU8, {4, 128}).value();
  EXPECT_TRUE(tensor.onDevice());
  EXPECT_EQ(tensor.data(), nullptr);
  DLManagedTensor* out = toDlpack(tensor).value();
  EXPECT_EQ(out->tensor.device.type, 12);
  EXPECT_EQ(out->tensor.device.index, device.info().index);
  EXPECT_EQ(out->tensor.data, buffer.hostView().value());
  EXPECT_EQ(static_cast<uint8_t*>(out->tensor.data)[511], 7);
  const uint64_t address = buffer.address();
  buffer = Buffer();
  tensor = SharedTensor();
  EXPECT_EQ(device.memoryInfo().usedBytes, 1024);
  // A framework may have made it a view.
  out->tensor.byteOffset = 128;
  out->tensor.shape[0] = 2;
  SharedTensor back = fromDlpack(out).value();
  EXPECT_EQ(back.buffer().address(), address + 128);
  EXPECT_EQ(back.buffer().size(), 256);
  out = toDlpack(back).value();
  out->tensor.byteOffset = 1024;
  EXPECT_EQ(fromDlpack(out).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(device.memoryInfo().usedBytes, 1024);
  back = SharedTensor();
  EXPECT_EQ(device.memoryInfo().usedBytes, 0);

  options.driver = "null";
  Buffer blind = Device::open(options).value().allocate(64).value();
  EXPECT_EQ(toDlpack(SharedTensor::ofBuffer(blind, ElementType::kU8, {64}).value()).status().code(),
            StatusCode::kUnimplemented);
}

TEST(Dlpack, RefusesTensorsThatCannotBe) {
  int released = 0;
  auto release = [&] { ++released; };
  float memory[4] = {};
  const StatusCode invalid = StatusCode::kInvalidArgument;
  EXPECT_EQ(SharedTensor::ofHost(nullptr, ElementType::kF32, {4}, release).status().code(), invalid);
  EXPECT_EQ(SharedTensor::ofHost(memory, ElementType::kInvalid, {4}, release).status().code(), invalid);
  EXPECT_EQ(SharedTensor::ofHost(memory, ElementType::kF32, {kDynamic}, release).status().code(), invalid);
  EXPECT_EQ(SharedTensor::ofHost(memory, ElementType::kF32, {INT64_MAX, 2}, release).status().code(), invalid);
  EXPECT_EQ(released, 4);
  EXPECT_TRUE(SharedTensor::ofHost(nullptr, ElementType::kF32, {0}).ok());
  EXPECT_EQ(SharedTensor::ofBuffer(Buffer(), ElementType::kF32, {4}).status().code(), invalid);
  DeviceOptions options;
  options.hbmBytes = 16 << 20;
  Buffer buffer = Device::open(options).value().allocate(16).value();
  EXPECT_EQ(SharedTensor::ofBuffer(buffer, ElementType::kF32, {5}).status().code(), StatusCode::kOutOfRange);
  EXPECT_TRUE(SharedTensor::ofBuffer(buffer, ElementType::kF32, {2, 2}).ok());
  EXPECT_EQ(toDlpack(SharedTensor()).status().code(), invalid);
  EXPECT_EQ(SharedTensor().type(), ElementType::kInvalid);
  EXPECT_EQ(SharedTensor().bytes(), 0);
  EXPECT_TRUE(SharedTensor().shape().empty());
  EXPECT_EQ(SharedTensor().data(), nullptr);
}

}  // namespace
}  // namespace hpu
