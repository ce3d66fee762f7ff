// SPDX-License-Identifier: Apache-2.0
#include "Backend.h"

#include <string>
#include <utility>

namespace mini {

namespace {
hpu::Device openDevice(int index) {
  hpu::DeviceOptions options;
  options.index = index;
  return take(hpu::Device::open(options));
}
hpu::Stream makeStream(const hpu::Device& device, const char* name) {
  hpu::StreamOptions options;
  options.name = name;
  return take(hpu::Stream::create(device, options));
}
hpu::MemoryPoolOptions poolOptions() {
  hpu::MemoryPoolOptions options;
  options.label = "tensors";
  return options;
}
}  // namespace

Backend::Backend(hpu::EagerCache& cache, int index)
    : device(openDevice(index)),
      compute(makeStream(device, "compute")),
      copies(makeStream(device, "copies")),
      pool(take(hpu::MemoryPool::create(device, poolOptions()))),
      reservedBytes(std::make_shared<std::atomic<int64_t>>(0)),
      cache(cache) {
  hpu::MemoryHooks hooks;
  // Memory is freed when its last work is done, perhaps after this object: the counter is shared.
  hooks.allocated = [count = reservedBytes](uint64_t, int64_t bytes, const std::string&) { *count += bytes; };
  hooks.freed = [count = reservedBytes](uint64_t, int64_t bytes) { *count -= bytes; };
  // Pools have given up by now what they do not use; compiled operations hold constants and workspaces.
  hooks.outOfMemory = [this](int64_t) {
    const int64_t before = *reservedBytes;
    this->cache.forget(device);
    return *reservedBytes < before;
  };
  check(device.setMemoryHooks(hooks));
}

Backend::~Backend() {
  device.setMemoryHooks({}).ignore();
  cache.forget(device);  // What is loaded keeps a device open.
}

Tensor empty(Backend& backend, const hpu::Shape& shape) {
  Tensor tensor{shape, nullptr};
  tensor.storage = std::make_shared<Storage>(backend, tensor.bytes());
  return tensor;
}

void copyIn(const Tensor& to, const float* values) {
  Backend& backend = to.backend();
  hpu::Event reused, arrived;
  check(backend.compute.record(reused));  // Work that still uses the block of a tensor that is gone.
  check(backend.copies.wait(reused));
  check(backend.copies.copyToDevice(to.buffer(), values, to.bytes()));
  check(backend.copies.record(arrived));
  check(backend.compute.wait(arrived));
}

Tensor upload(Backend& backend, const hpu::Shape& shape, std::vector<float> values) {
  Tensor tensor = empty(backend, shape);
  auto kept = std::make_shared<std::vector<float>>(std::move(values));
  if (static_cast<int64_t>(kept->size()) != tensor.count())
    throw Error(hpu::invalidArgument("upload: " + std::to_string(kept->size()) + " values for a tensor of " +
                                     std::to_string(tensor.count())));
  copyIn(tensor, kept->data());
  // Called when the copy is done, whatever became of it: that lets the values go.
  check(backend.copies.onDone([kept](const hpu::Status&) {}));
  return tensor;
}

std::vector<float> download(const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.count()));
  hpu::Stream& stream = tensor.backend().compute;
  check(stream.copyToHost(values.data(), tensor.buffer(), tensor.bytes()));
  check(stream.synchronize());
  return values;
}

}  // namespace mini
