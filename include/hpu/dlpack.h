// SPDX-License-Identifier: Apache-2.0
// DLPack: tensors from and to other frameworks without a copy.
// The one thing to know: DLManagedTensor is laid out as DLPack 0.8 has it (dlpack.h of that project may be included
// beside this header, in any order); whoever takes one calls its deleter once.
//
//   HPU_ASSIGN(auto tensor, hpu::fromDlpack(theirs));       // Takes it over.
//   HPU_RETURN_IF_ERROR(stream.copyToDevice(buffer, tensor.data(), tensor.bytes()));
//   HPU_RETURN_IF_ERROR(stream.onDone([tensor](const hpu::Status&) {}));  // Keeps it until it was read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hpu/device.h"
#include "hpu/memory.h"
#include "hpu/status.h"
#include "hpu/types.h"

struct DLManagedTensor;

namespace hpu {

/// How the elements of a tensor may lie.
enum class DlpackStrides {
  kRowMajor,  ///< Dense, in row-major order: all bytes in one piece.
  kAny,       ///< In host memory, as SharedTensor::strides says.
};

/// A tensor in host memory or a device's: dense and in row-major order, unless it was asked for with other strides. A
/// shared handle: what is behind it stays until the last one is gone. Any thread may use it.
class HPU_API SharedTensor {
 public:
  SharedTensor();
  ~SharedTensor();
  bool valid() const { return state_ != nullptr; }
  ElementType type() const;
  const Shape& shape() const;
  /// The steps from an element to the next in each dimension, in elements; empty: row-major order. Only of a tensor
  /// that was made, or taken with DlpackStrides::kAny.
  const std::vector<int64_t>& strides() const;
  int64_t bytes() const;  ///< Of the elements.
  bool onDevice() const;
  void* data() const;     ///< Of host memory: the first element; null on a device.
  Buffer buffer() const;  ///< On a device; empty of host memory.

  /// Host memory of the caller; `release` is called once when nobody uses it any more, also (at once) when this fails;
  /// what it throws is logged.
  /// Errors: kInvalidArgument.
  static StatusOr<SharedTensor> ofHost(void* data, ElementType type, const Shape& shape,
                                       std::function<void()> release = {});
  /// The same with strides in elements (empty: row-major order), which may be negative, or 0.
  static StatusOr<SharedTensor> ofHost(void* data, ElementType type, const Shape& shape,
                                       const std::vector<int64_t>& strides, std::function<void()> release);
  /// The first bytes of a buffer. Errors: kOutOfRange (it is too small), kInvalidArgument.
  static StatusOr<SharedTensor> ofBuffer(const Buffer& buffer, ElementType type, const Shape& shape);

 private:
  friend HPU_API StatusOr<SharedTensor> fromDlpack(DLManagedTensor* tensor, DlpackStrides strides);
  friend HPU_API StatusOr<DLManagedTensor*> toDlpack(const SharedTensor& tensor);
  struct State;
  std::shared_ptr<State> state_;
};

/// Takes the tensor over: its deleter is called when the last handle is gone, also (at once) when this fails. Host
/// memory may be pinned for another accelerator. Errors: kInvalidArgument (null, strides that are not row-major where
/// they must be, lanes, a size that overflows), kUnimplemented (an element type or a device that OpenHPU lacks; names
/// it).
HPU_API StatusOr<SharedTensor> fromDlpack(DLManagedTensor* tensor);
HPU_API StatusOr<SharedTensor> fromDlpack(DLManagedTensor* tensor, DlpackStrides strides);
/// A tensor over the same memory, whose deleter lets it go: host memory as kDLCPU; a device's memory, when the host
/// sees it (Buffer::hostView), as kDLExtDev with the number of the device and the host's pointer. Errors:
/// kUnimplemented (as hostView; a type that DLPack lacks).
HPU_API StatusOr<DLManagedTensor*> toDlpack(const SharedTensor& tensor);

}  // namespace hpu
