// SPDX-License-Identifier: Apache-2.0
// Engine cost functions: what one command costs on the MME, the TPCs or the DMAs of a target, and
// why. The one thing to know: the terms of a cost add up to its duration exactly (integer
// picoseconds).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "arch/TargetDesc.h"
#include "hpu/types.h"

namespace hpu::perfmodel {

using Picoseconds = int64_t;

/// The "why not peak" terms, in the order in which they are peeled off.
enum class Term : uint8_t {
  kIdeal = 0,         ///< Work divided by the engine's peak.
  kEdgeQuantisation,  ///< The array or vector is not filled at the edges, or multiplies a packing's zeros.
  kRollUp,            ///< Small K.
  kFillDrain,
  kPorts,     ///< Operand ports, unaligned access.
  kMemory,    ///< Waiting for HBM or SRAM.
  kOverhead,  ///< Start of the slice.
  kSync,      ///< Waiting for signals (filled in by the timeline).
  kClock,     ///< Clock derate.
};
inline constexpr int kNumTerms = 9;
constexpr std::string_view termName(Term term) {
  constexpr std::string_view names[] = {"ideal",  "edge_quantisation", "roll_up", "fill_drain", "ports",
                                        "memory", "overhead",          "sync",    "clock"};
  return names[static_cast<unsigned>(term)];
}

/// No command takes longer than this (1000 s): it keeps sums in range whatever sizes a recipe claims.
inline constexpr Picoseconds kLongestCommand = 1'000'000'000'000'000;

/// What a part of a program takes that runs by data (recipe::Part::count, condition), each time: the device's control
/// processor reads a value that the engines have written, and goes to one queue of commands or another. No figure of it
/// is published. Assumed are an uncached read of HBM by an embedded core and the start of a queue: 1 us together.
inline constexpr Picoseconds kPartDecision = 1'000'000;

struct Bytes {
  int64_t hbm = 0, sram = 0;
};

/// Cost of one command when it has the memories to itself: compute time, memory demand and terms.
struct Cost {
  Picoseconds compute = 0;  ///< Engine-bound time, launch overhead included.
  Bytes bytes;              ///< Traffic; the timeline shares the bandwidth among what runs.
  Picoseconds alone = 0;    ///< max(compute, memory time alone): the sum of `terms`.
  std::array<Picoseconds, kNumTerms> terms{};
  std::string_view bound;  ///< What `alone` is: "mme", "tpc", "dma", "host", "hbm" or "sram".
};

/// Picoseconds that `bytes` take when one command has the memory to itself (rounded up).
Picoseconds hbmTime(const arch::TargetDesc&, int64_t bytes);
Picoseconds sramTime(const arch::TargetDesc&, int64_t bytes);

struct GemmShape {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  ElementType type = ElementType::kBF16;
  bool transposeA = false, transposeB = false;
  /// Multiply-accumulates that are work; the others of a packed product are with zeros. 0: all.
  double work = 0;
};
/// Multiply-accumulates that are work.
double gemmWork(const GemmShape&);
/// The arrangement of the array that is fastest for the shape, and how its cycles come about.
struct GemmPlan {
  const arch::MmeGeometry* geometry = nullptr;
  double steps = 0;             ///< Passes over the array, all batches.
  double constrainedSteps = 0;  ///< Of these: passes that read both operands anew through shared buffers.
  double kCycles = 0;           ///< Cycles of one pass at full rate.
  double idealCycles = 0;       ///< Multiply-accumulates that are work / peak.
  double computeCycles = 0;     ///< All passes, without drain and launch.
  double drainCycles = 0;       ///< The last pass's results leave the array.
  double utilization() const { return computeCycles > 0 ? idealCycles / computeCycles : 0; }
};
GemmPlan gemmPlan(const arch::TargetDesc&, const GemmShape&);
/// The plan for one given arrangement; false when the shape cannot use it.
bool gemmPlanFor(const arch::TargetDesc&, const GemmShape&, const arch::MmeGeometry&, GemmPlan&);

/// 2 * batch * M * N * K, or twice the work of a packed product.
double gemmFlops(const GemmShape&);
/// A GEMM by itself: both operands read and the result written once, all in HBM. The result of 8-bit operands
/// is bf16, as they have no accumulator of their own width.
Bytes gemmBytes(const GemmShape&);

/// Conv2d is priced as its implicit GEMM: m = N*OH*OW, n = OC/groups, k = C/groups*KH*KW, batch =
/// groups.
Cost gemmCost(const arch::TargetDesc&, const arch::ClockProfile&, const GemmShape&, Bytes);

struct TpcWork {
  int64_t points = 0;  ///< Index-space points of the slice.
  /// Issue slots per point: 256-byte vector accesses, vector and scalar instructions (fractions are
  /// normal: an elementwise f32 kernel stores 1/64 of a vector a point).
  double loads = 0, stores = 0, vectorOps = 0, scalarOps = 0;
};
Cost tpcCost(const arch::TargetDesc&, const arch::ClockProfile&, const TpcWork&, Bytes);

/// `engineBytes` is what passes through the engines in the busier direction; by default half of the
/// traffic (a copy reads what it writes). On a target without compiler DMA the copy is priced on
/// the TPCs.
Cost dmaCost(const arch::TargetDesc&, const arch::ClockProfile&, Bytes, int64_t engineBytes = -1);
/// Host to device or back over the host link.
Cost hostCopyCost(const arch::TargetDesc&, int64_t bytes);

}  // namespace hpu::perfmodel
