// SPDX-License-Identifier: Apache-2.0
// What Gaudi 1, 2 and 3 are, as data; nothing else in the project tests which target it is.
// The one thing to know: every number names its source in TargetDesc.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hpu/status.h"
#include "hpu/target.h"
#include "hpu/types.h"

namespace hpu::arch {

/// One way to arrange the multiply-accumulate array: width along N, height along M, in 16-bit MACs.
/// With batch > 1 (or kSplit > 1) the array is cut into that many parts that work on different
/// GEMMs of a batch (on different parts of K); such an arrangement is used only for a GEMM that
/// fits one part.
struct MmeGeometry {
  std::string_view name;  ///< "2xw"
  int64_t width = 0, height = 0;
  int64_t batch = 1, kSplit = 1;
  /// More operand ports than buffers behind them: a step in which both operands are new reads twice
  /// as long.
  bool portConstrained = false;
  bool wideTypesOnly = false;  ///< Not for 8-bit operands.
  bool concurrent() const { return batch > 1 || kSplit > 1; }
};

/// What an element type costs on the array, relative to bf16.
struct MmeTypeRate {
  ElementType type = ElementType::kInvalid;
  double cyclesPerK = 1;      ///< Cycles that one K step takes.
  int64_t heightDivisor = 1;  ///< Rows of the array are used by this many at once.
};

/// Frequencies and derates that a measurement was made at.
struct ClockProfile {
  std::string_view name;  ///< "datasheet", "shipping", "sustained", "measured"
  double mmeGhz = 0, tpcGhz = 0;
  double mmeDerate = 1;  ///< Sustained fraction of the clock under matrix load.
  int64_t submitNs = 0;  ///< Host to device latency of one submission.
};

struct TargetDesc {
  Target target = Target::kGaudi2;
  std::string_view name;

  // MME
  std::vector<MmeGeometry> mmeGeometries;  ///< In the order in which ties are resolved.
  std::vector<MmeTypeRate> mmeTypes;       ///< Types that the array multiplies natively; f32 is always there.
  int64_t mmeRollupCycles = 0;             ///< Least K cycles of one step, whatever K is: the accumulators' roll-up.
  int64_t mmeFillCycles = 0;               ///< Fill of one step.
  int64_t mmeDrainCycles = 0;              ///< The last step's full tile leaves the array: once a command.
  int64_t mmeLaunchCycles = 0;             ///< Start of one MME command.
  /// Part of the K cycles that is lost when both operands stream at the array's full width.
  double mmeStreamStall = 0;
  /// The type's rate; a type that the array does not have is priced as f32, into which it is
  /// widened.
  const MmeTypeRate& mmeRate(ElementType type) const;
  /// The array multiplies the type as it is.
  bool hasMmeType(ElementType type) const;
  /// "bf16, f32", for messages.
  std::string mmeTypeNames() const;
  /// Cycles of the whole array that one K step costs relative to bf16 (cyclesPerK x heightDivisor).
  double mmeCostPerK(ElementType type) const;
  /// 16-bit multiply-accumulates a cycle: the area of the largest arrangement.
  int64_t mmeMacs() const;
  /// Peak matrix FLOP/s / 1e12 at a clock (derate not applied).
  double mmePeakTflops(const ClockProfile& clock, ElementType type) const;

  // TPC
  int64_t numTpcs = 0;
  int64_t tpcVectorBytes = 256;
  int64_t tpcInstructionLatency = 4;
  int64_t tpcCyclesPerAccess = 4;  ///< One 256-byte global load, and one store beside it, per this many cycles.
  int64_t tpcLocalMemoryBytes = 80 * 1024;
  int64_t tpcLaunchCycles = 0;
  /// Peak vector FLOP/s / 1e12 at a clock (one multiply-add a lane and cycle).
  double tpcPeakTflops(const ClockProfile& clock, ElementType type) const;

  // Memory
  int64_t hbmBytes = 0;
  double hbmBytesPerNs = 0;  ///< Pin rate in bytes a nanosecond (= GB/s).
  double hbmEfficiency = 1;
  int64_t sramBytes = 0;  ///< Usable by the compiler; on Gaudi 3 the managed cache window.
  double sramBytesPerNs = 0;
  int64_t cacheLineBytes = 128;

  // DMA
  int64_t numDmas = 0;       ///< Usable by compiled graphs; 0: copies run on the TPC.
  double dmaBytesPerNs = 0;  ///< All together, in each direction; 0 when numDmas is 0.
  int64_t dmaLaunchNs = 0;
  double hostLinkBytesPerNs = 0;  ///< One direction, after the link's protocol overhead.

  std::vector<ClockProfile> clocks;  ///< The first is the default.
  /// The profile of that name; the default one for an empty or unknown name (see findClock).
  const ClockProfile& clock(std::string_view profile = {}) const;
  /// As clock(), but kInvalidArgument, naming the valid ones, for an unknown name.
  StatusOr<ClockProfile> findClock(std::string_view profile) const;

  // fp8
  /// What E4M3 is on the array (kInvalid: it has none), and the scales that its exponent bias gives,
  /// ascending: a code stands for its value times one of them.
  ElementType e4m3Type = ElementType::kInvalid;
  std::vector<double> e4m3Scales;
};

/// The description of a target. Thread-safe; lives for ever.
const TargetDesc& targetDesc(Target target);

}  // namespace hpu::arch
