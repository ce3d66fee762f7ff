// SPDX-License-Identifier: Apache-2.0
// What Gaudi 1, 2 and 3 are, as data; nothing else in the project tests which target it is.
// The one thing to know: every number names its source in TargetDesc.cpp.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "hpu/status.h"
#include "hpu/target.h"
#include "hpu/types.h"

namespace hpu::arch {

/// One way to arrange the multiply-accumulate array: width along N, height along M, in 16-bit MACs.
struct MmeGeometry {
  std::string_view name;  ///< "2xw"
  int64_t width = 0, height = 0;
};

/// Frequencies and derates that a measurement was made at.
struct ClockProfile {
  std::string_view name;  ///< "datasheet", "shipping", "sustained"
  double mmeGhz = 0, tpcGhz = 0;
  double mmeDerate = 1;   ///< Sustained fraction of the clock under matrix load.
  int64_t submitNs = 0;   ///< Host to device latency of one submission.
};

struct TargetDesc {
  Target target = Target::kGaudi2;
  std::string_view name;

  // MME
  std::vector<MmeGeometry> mmeGeometries;
  int64_t mmeRollupCycles = 0;  ///< Least cycles of one pass through the array, whatever K is.
  int64_t mmeFillCycles = 0;    ///< Fill and drain of one pass.
  int64_t mmeLaunchCycles = 0;  ///< Start of one MME command.
  /// Cycles that one K step costs relative to bf16 (fp8 0.5 on Gaudi 2, f32 4 ...), and the height divisor.
  double mmeCostPerK(ElementType type) const;

  // TPC
  int64_t numTpcs = 0;
  int64_t tpcVectorBytes = 256;
  int64_t tpcInstructionLatency = 4;
  int64_t tpcLocalMemoryBytes = 80 * 1024;
  int64_t tpcLaunchCycles = 0;

  // Memory
  int64_t hbmBytes = 0;
  double hbmBytesPerNs = 0;   ///< Pin rate in bytes a nanosecond (= GB/s).
  double hbmEfficiency = 1;
  int64_t sramBytes = 0;      ///< Usable by the compiler; on Gaudi 3 the managed cache window.
  double sramBytesPerNs = 0;
  int64_t cacheLineBytes = 128;

  // DMA
  int64_t numDmas = 0;        ///< Usable by compiled graphs; 0: copies run on the TPC.
  double dmaBytesPerNs = 0;   ///< All together.
  int64_t dmaLaunchNs = 0;
  double hostLinkBytesPerNs = 0;  ///< One direction.

  std::vector<ClockProfile> clocks;  ///< The first is the default.
  const ClockProfile& clock(std::string_view profile = {}) const;
};

const TargetDesc& targetDesc(Target target);

}  // namespace hpu::arch
