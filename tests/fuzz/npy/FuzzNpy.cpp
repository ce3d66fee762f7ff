// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes are an error or the arrays of a .npy or .npz file, which are written and read again the same.
#include <cstdint>
#include <cstdlib>

#include "tools/common/Npy.h"

namespace {

using hpu::tools::HostTensor;

void check(const HostTensor& tensor) {
  if (static_cast<int64_t>(tensor.bytes.size()) != tensor.type.bytes()) std::abort();
  const std::vector<uint8_t> written = hpu::tools::serializeNpy(tensor);
  const hpu::StatusOr<HostTensor> again = hpu::tools::parseNpy(written.data(), written.size());
  if (!again.ok() || again->type.shape != tensor.type.shape) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const hpu::StatusOr<HostTensor> array = hpu::tools::parseNpy(data, size);
  if (array.ok())
    check(*array);
  else if (array.status().message().empty())
    std::abort();
  const hpu::StatusOr<std::vector<HostTensor>> arrays = hpu::tools::parseNpz(data, size, "fuzz.npz");
  if (arrays.ok())
    for (const HostTensor& one : *arrays) check(one);
  else if (arrays.status().message().empty())
    std::abort();
  return 0;
}
