// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any text is an error, or a fabric that can be used and is the same when written and read.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "collectives/fabric/FabricFile.h"
#include "collectives/fabric/RankMap.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hpu::collectives;
  const auto fabric = parseFabric({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!fabric.ok()) {
    if (fabric.status().code() != hpu::StatusCode::kInvalidArgument) abort();
    if (fabric.status().message().rfind("fuzz:", 0) != 0) abort();
    return 0;
  }
  if (!checkFabric(*fabric).ok()) abort();
  const auto back = parseFabric(fabricText(*fabric), "fuzz");
  if (!back.ok() || !(*back == *fabric)) abort();
  if (fabric->railPs(int64_t{1} << 40) < 0) abort();
  for (int32_t device = 0; device < fabric->devicesPerNode; ++device)
    if (const int32_t rail = fabric->railOf(fabric->nodes - 1, device); rail < -1 || rail >= fabric->rails) abort();
  if (fabric->nodes * fabric->devicesPerNode > 4096) return 0;
  const auto map = RankMap::all(*fabric);
  if (map.ok() ? map->ranks() < 1 : map.status().message().empty()) abort();
  return 0;
}
