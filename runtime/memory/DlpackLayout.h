// SPDX-License-Identifier: Apache-2.0
// DlpackLayout: the structs of DLPack 0.8 as they lie in memory, and its numbers.
// The one thing to know: they are that project's ABI, which every framework has compiled in; nothing may be changed. A
// file that includes this one cannot include dlpack.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hpu::dlpack {

struct Place {
  int32_t type = 0, index = 0;
};
struct DataType {
  uint8_t code = 0, bits = 0;
  uint16_t lanes = 1;
};
struct Tensor {
  void* data = nullptr;
  Place device;
  int32_t rank = 0;
  DataType type;
  int64_t* shape = nullptr;
  int64_t* strides = nullptr;  ///< In elements; null: row-major.
  uint64_t byteOffset = 0;
};

/// Of DataType::code.
enum Code : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kOpaque = 3, kBfloat = 4, kComplex = 5, kBool = 6 };
/// Of Place::type.
enum PlaceType : int32_t { kCpu = 1, kCudaHost = 3, kRocmHost = 11, kExtDev = 12 };

}  // namespace hpu::dlpack

struct DLManagedTensor {
  hpu::dlpack::Tensor tensor;
  void* context = nullptr;
  void (*deleter)(DLManagedTensor* self) = nullptr;
};

static_assert(sizeof(hpu::dlpack::Tensor) == 48 && offsetof(hpu::dlpack::Tensor, type) == 20 &&
              offsetof(hpu::dlpack::Tensor, shape) == 24 && offsetof(hpu::dlpack::Tensor, byteOffset) == 40);
static_assert(sizeof(DLManagedTensor) == 64 && offsetof(DLManagedTensor, context) == 48);
