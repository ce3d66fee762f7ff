// SPDX-License-Identifier: Apache-2.0
// The aten ops that make, view and copy tensors: those that need no kernel.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "pytorch/device/Copy.h"
#include "pytorch/device/Memory.h"
#include "pytorch/device/Streams.h"
#include "pytorch/record/Recorder.h"

namespace hpu_torch {
namespace {

using at::Tensor;
using c10::IntArrayRef;
using c10::optional;

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::HPU);

c10::Device checkedDevice(optional<c10::Device> device, optional<c10::Layout> layout, optional<bool> pinned) {
  TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided, "hpu devices have dense tensors only, not ", *layout);
  TORCH_CHECK(!pinned.value_or(false), "only dense CPU tensors can be pinned, not tensors on hpu");
  return {kHpu, checkedIndex(device ? device->index() : static_cast<c10::DeviceIndex>(-1))};
}

Tensor noted(Tensor tensor) {
  noteSizes(tensor.storage(), tensor.sizes(), tensor.strides());
  return tensor;
}

Tensor emptyMemoryFormat(IntArrayRef size, optional<at::ScalarType> dtype, optional<c10::Layout> layout,
                         optional<c10::Device> device, optional<bool> pinned, optional<c10::MemoryFormat> format) {
  c10::DeviceGuard guard(checkedDevice(device, layout, pinned));
  return noted(at::detail::empty_generic(size, allocator(), kKeys, c10::dtype_or_default(dtype), format));
}

Tensor emptyStrided(IntArrayRef size, IntArrayRef stride, optional<at::ScalarType> dtype, optional<c10::Layout> layout,
                    optional<c10::Device> device, optional<bool> pinned) {
  c10::DeviceGuard guard(checkedDevice(device, layout, pinned));
  return noted(at::detail::empty_strided_generic(size, stride, allocator(), kKeys, c10::dtype_or_default(dtype)));
}

/// Zeros without memory are a key of the CPU's and CUDA's; here they are zeros.
Tensor efficientZeroTensor(IntArrayRef size, optional<at::ScalarType> dtype, optional<c10::Layout> layout,
                           optional<c10::Device> device, optional<bool> pinned) {
  return emptyMemoryFormat(size, dtype, layout, device, pinned, c10::nullopt).zero_();
}

/// Makes the storage of a tensor that was given sizes large enough for them; what was there stays.
void growStorage(c10::TensorImpl& impl) {
  if (impl.numel() == 0) return;
  const c10::Storage& storage = impl.storage();
  const auto bytes = static_cast<int64_t>(
      at::detail::computeStorageNbytes(impl.sizes(), impl.strides(), impl.dtype().itemsize(), impl.storage_offset()));
  const auto old = static_cast<int64_t>(storage.nbytes());
  if (bytes <= old) return;
  TORCH_CHECK(storage.resizable(), "a storage of ", old, " bytes that cannot be resized is too small for a tensor of ",
              bytes, " bytes");
  flushStorage(storage, "resize");
  c10::DeviceGuard guard(impl.device());
  c10::DataPtr data = allocator()->allocate(bytes);
  if (old > 0) {
    hpu::Stream& stream = currentStream(open(impl.device().index()));
    check(stream.copyOnDevice(deviceAddress(data.get()), deviceAddress(storage.data()), old), "resizing a tensor");
  }
  storage.unsafeGetStorageImpl()->set_data_ptr(std::move(data));
  storage.unsafeGetStorageImpl()->set_nbytes(bytes);
}

const Tensor& resize(const Tensor& self, IntArrayRef size, optional<c10::MemoryFormat> format) {
  c10::TensorImpl& impl = *self.unsafeGetTensorImpl();
  if (impl.sizes() != size) impl.set_sizes_contiguous(size);
  if (format) {
    TORCH_CHECK(*format != c10::MemoryFormat::Preserve, "resize_ does not take the memory format ", *format);
    impl.empty_tensor_restride(*format);
  }
  growStorage(impl);
  return self;
}

Tensor& setStorageOffset(Tensor& result, at::Storage storage, int64_t offset, IntArrayRef size, IntArrayRef stride) {
  at::native::checkSetStorage(result, storage, offset, size, stride);
  c10::TensorImpl& impl = *result.unsafeGetTensorImpl();
  impl.set_storage_offset(offset);
  if (stride.data()) {
    impl.set_sizes_and_strides(size, stride);
  } else {
    impl.set_sizes_contiguous(size);
  }
  growStorage(impl);
  return result;
}
Tensor& setStorage(Tensor& result, at::Storage storage) {
  const auto count = static_cast<int64_t>(storage.nbytes() / result.dtype().itemsize());
  return setStorageOffset(result, std::move(storage), 0, {count}, {});
}
Tensor& setTensor(Tensor& result, const Tensor& source) {
  if (result.unsafeGetTensorImpl() == source.unsafeGetTensorImpl()) return result;
  return setStorageOffset(result, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}
Tensor& setEmpty(Tensor& result) {
  at::Storage storage(c10::Storage::use_byte_size_t(), 0, c10::DataPtr(nullptr, result.device()), allocator(), true);
  return setStorageOffset(result, std::move(storage), 0, {0}, {});
}

Tensor copyFrom(const Tensor& self, const Tensor& dst, bool nonBlocking) {
  copyValues(self, dst, nonBlocking);
  return dst;
}
Tensor copyFromAndResize(const Tensor& self, const Tensor& dst) {
  if (self.sizes() != dst.sizes()) at::native::resize_output(dst, self.sizes());
  copyValues(self, dst, false);
  return dst;
}

at::Scalar localScalarDense(const Tensor& self) {
  return at::_local_scalar_dense(toHost(self.reshape({1})));
}

Tensor& fillScalar(Tensor& self, const at::Scalar& value) {
  fillValues(self, value);
  return self;
}
Tensor& fillTensor(Tensor& self, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ takes a tensor of 0 dimensions, not of ", value.dim());
  if (value.device() == self.device()) {
    copyValues(value, self, false);
  } else {
    fillValues(self, value.item());
  }
  return self;
}
Tensor& zero(Tensor& self) {
  fillValues(self, 0);
  return self;
}

bool isPinnedTensor(const Tensor& self, optional<c10::Device> /*device*/) {
  return self.device().is_cpu() && self.layout() == at::kStrided && self.has_storage() &&
         isPinned(self.storage().data());
}
Tensor pinTensor(const Tensor& self, optional<c10::Device> /*device*/) {
  TORCH_CHECK(self.device().is_cpu(), "only dense CPU tensors can be pinned, not a tensor on ", self.device());
  const auto bytes = at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.dtype().itemsize());
  at::Storage storage(c10::Storage::use_byte_size_t(), static_cast<int64_t>(bytes), pinnedAllocator(),
                      /*resizable=*/false);
  Tensor pinned = at::empty({0}, self.options()).set_(storage, 0, self.sizes(), self.strides());
  return pinned.copy_(self);
}

void recordStream(Tensor& self, c10::Stream stream) {
  if (Block* block = blockOf(self.storage().data_ptr())) {
    TORCH_CHECK(self.device() == stream.device(), "a tensor on ", self.device(), " cannot be recorded on ", stream);
    block->segment->owner->recordStream(block, stream.id());
  }
}

TORCH_LIBRARY_IMPL(aten, HPU, m) {
  m.impl("empty.memory_format", TORCH_FN(emptyMemoryFormat));
  m.impl("empty_strided", TORCH_FN(emptyStrided));
  m.impl("_efficientzerotensor", TORCH_FN(efficientZeroTensor));
  m.impl("resize_", TORCH_FN(resize));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(setStorageOffset));
  m.impl("set_.source_Storage", TORCH_FN(setStorage));
  m.impl("set_.source_Tensor", TORCH_FN(setTensor));
  m.impl("set_", TORCH_FN(setEmpty));
  m.impl("is_set_to", TORCH_FN(at::native::is_set_to));

  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));

  m.impl("_copy_from", TORCH_FN(copyFrom));
  m.impl("_copy_from_and_resize", TORCH_FN(copyFromAndResize));
  m.impl("_local_scalar_dense", TORCH_FN(localScalarDense));
  m.impl("fill_.Scalar", TORCH_FN(fillScalar));
  m.impl("fill_.Tensor", TORCH_FN(fillTensor));
  m.impl("zero_", TORCH_FN(zero));

  m.impl("is_pinned", TORCH_FN(isPinnedTensor));
  m.impl("_pin_memory", TORCH_FN(pinTensor));
  m.impl("record_stream", TORCH_FN(recordStream));
}

// The fallbacks of these keys would write to a copy of `dst`, which the schema does not say is written. copyValues()
// knows both.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

}  // namespace
}  // namespace hpu_torch
