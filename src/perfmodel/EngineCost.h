// SPDX-License-Identifier: Apache-2.0
// Engine cost functions: what one command costs on the MME, the TPCs or the DMAs of a target, and why.
// The one thing to know: the terms of a cost add up to its duration exactly (integer picoseconds).
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
  kIdeal = 0,          ///< Work divided by the engine's peak.
  kEdgeQuantisation,   ///< The array or vector is not filled at the edges.
  kRollUp,             ///< Small K.
  kFillDrain,
  kPorts,              ///< Operand ports, unaligned access.
  kMemory,             ///< Waiting for HBM or SRAM.
  kOverhead,           ///< Start of the slice.
  kSync,               ///< Waiting for signals (filled in by the timeline).
  kClock,              ///< Clock derate.
};
inline constexpr int kNumTerms = 9;
constexpr std::string_view termName(Term term) {
  constexpr std::string_view names[] = {"ideal", "edge_quantisation", "roll_up", "fill_drain", "ports",
                                        "memory", "overhead", "sync", "clock"};
  return names[static_cast<unsigned>(term)];
}

struct Bytes {
  int64_t hbm = 0, sram = 0;
};

/// Cost of one command when it has the memories to itself: compute time, memory demand and terms.
struct Cost {
  Picoseconds compute = 0;  ///< Engine-bound time, launch overhead included.
  Bytes bytes;              ///< Traffic; the timeline shares the bandwidth among what runs.
  Picoseconds alone = 0;    ///< max(compute, memory time alone): the sum of `terms`.
  std::array<Picoseconds, kNumTerms> terms{};
  std::string_view bound;   ///< "mme", "tpc", "dma", "hbm", "sram"
};

struct GemmShape {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  ElementType type = ElementType::kBF16;
  bool transposeA = false, transposeB = false;
};
Cost gemmCost(const arch::TargetDesc&, const arch::ClockProfile&, const GemmShape&, Bytes);

struct TpcWork {
  int64_t points = 0;  ///< Index-space points of the slice.
  double loads = 0, stores = 0, vectorOps = 0, scalarOps = 0;  ///< Per point, in 256-byte vectors.
};
Cost tpcCost(const arch::TargetDesc&, const arch::ClockProfile&, const TpcWork&, Bytes);

Cost dmaCost(const arch::TargetDesc&, const arch::ClockProfile&, Bytes);
/// Host to device or back over the host link.
Cost hostCopyCost(const arch::TargetDesc&, int64_t bytes);

}  // namespace hpu::perfmodel
