// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/functional/HostBuffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace hpu::sim {

StatusOr<HostBuffer> HostBuffer::create(uint64_t bytes) {
  HostBuffer buffer;
  if (bytes == 0) return buffer;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return resourceExhausted("no host memory for " + std::to_string(bytes) +
                             " bytes of executor scratch: " + std::strerror(errno));
  madvise(memory, bytes, MADV_HUGEPAGE);  // A hint: failure changes nothing.
  buffer.data_ = static_cast<std::byte*>(memory);
  buffer.bytes_ = bytes;
  return buffer;
}

HostBuffer::~HostBuffer() {
  if (data_) munmap(data_, bytes_);
}

}  // namespace hpu::sim
