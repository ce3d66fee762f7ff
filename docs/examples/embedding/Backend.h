// SPDX-License-Identifier: Apache-2.0
// What a framework's backend is made of: errors, a device with its streams and memory, storages, tensors.
#pragma once

#include <hpu/device.h>
#include <hpu/eager.h>
#include <hpu/memory_pool.h>
#include <hpu/stream.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

namespace mini {

/// The framework's exception: the status says what to do, to programs (code) and people (message).
struct Error : std::runtime_error {
  explicit Error(const hpu::Status& s) : std::runtime_error(s.toString()), status(s) {}
  hpu::Status status;
};
inline void check(const hpu::Status& status) {
  if (!status.ok()) throw Error(status);
}
template <typename T>
T take(hpu::StatusOr<T> result) {
  check(result.status());
  return std::move(result).value();
}

/// A device as the framework sees it. Operations go to `compute`, in the order of the program; copies of inputs to
/// `copies`, so that they overlap with it.
struct Backend {
  explicit Backend(hpu::EagerCache& cache, int index = hpu::kAnyDevice);
  ~Backend();
  hpu::Device device;
  hpu::Stream compute, copies;
  hpu::MemoryPool pool;                                 ///< Of tensors, in the order of `compute`.
  std::shared_ptr<std::atomic<int64_t>> reservedBytes;  ///< What the device has given to this process; its hooks count.
  hpu::EagerCache& cache;                               ///< Compiled operations, shared by all backends.
};

/// Memory of a tensor; goes back to the pool with the last tensor that uses it. That work may still use it does no
/// harm: what the next owner enqueues on `compute` comes later.
struct Storage {
  Storage(Backend& backend, int64_t bytes)
      : backend(backend), block(take(backend.pool.allocate(bytes, backend.compute))) {}
  ~Storage() { backend.pool.free(std::move(block), backend.compute).ignore(); }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  Backend& backend;
  hpu::Buffer block;
};

/// Numbers (f32) on a device. Copies of a Tensor are the same numbers.
struct Tensor {
  hpu::Shape shape;
  std::shared_ptr<Storage> storage;
  int64_t count() const { return hpu::numElements(shape); }
  int64_t bytes() const { return count() * int64_t{sizeof(float)}; }
  Backend& backend() const { return storage->backend; }
  const hpu::Buffer& buffer() const { return storage->block; }
};
Tensor empty(Backend& backend, const hpu::Shape& shape);
/// Enqueues a copy; `values` stay as they are until it is done.
void copyIn(const Tensor& to, const float* values);
/// The same with values of its own.
Tensor upload(Backend& backend, const hpu::Shape& shape, std::vector<float> values);
/// Waits; an error of the work before it is thrown here.
std::vector<float> download(const Tensor& tensor);

}  // namespace mini
