// SPDX-License-Identifier: Apache-2.0
// What a kernel computes, reduced to four kinds of values over one iteration space: loads at affine
// addresses, constants, lane-wise ops and reductions. Plain data; LoopEmitter turns it into loops.
// The one thing to know: every op (softmax, pooling, concat, ...) is lowered to these, so loops,
// vectors, masks and local memory are decided in one place for all of them.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "compiler/kernels/ElementwiseOps.h"
#include "compiler/kernels/KernelGraph.h"
#include "llvm/ADT/SmallVector.h"
#include "recipe/CommandAccess.h"

namespace hpu::kernels {

/// Sizes and element strides of an operand in its logical dims.
struct OperandView {
  ElementType type = ElementType::kInvalid;
  llvm::SmallVector<int64_t, 6> sizes, strides;
};

inline constexpr int kMaxIterDims = 16;
/// No variant's code has longer vectors (of any element type).
inline constexpr int64_t kMaxLanes = 64;
/// Of one call: the local memory of a TPC.
inline constexpr int64_t kMaxScratchBytes = 80 * 1024;

/// An i64 value computed at run time, times a factor.
struct Term {
  int prim = -1;
  int64_t factor = 1;
};
/// constant + sum of coef[d] * (iteration index of dim d) + the terms.
struct Affine {
  std::array<int64_t, kMaxIterDims> coef{};
  int64_t constant = 0;
  llvm::SmallVector<Term, 1> terms;
};
/// Where each logical dim of a value is read: one Affine a dim.
using IndexMap = llvm::SmallVector<Affine, 6>;

struct IterDim {
  int64_t size = 1;
  int indexDim = -1;  ///< The index-space dim that it is, or -1 for a dim that is only reduced over.
  bool row = false;   ///< Always iterated whole: reduced over, or along a row that is.
  /// For a window's taps: tables (of i64, by the index of dim `anchor`) of the first and one past
  /// the last tap inside the operand. -1: 0 and size.
  int anchor = -1, lowTable = -1, highTable = -1;
  /// Whether it needs a loop: a single tap may still lie outside of the operand.
  bool runs() const { return size != 1 || lowTable >= 0; }
};

/// Numbers known at compile time, kept in the image.
struct Table {
  ElementType type = ElementType::kI64;  ///< kI64 or kF32.
  std::vector<int64_t> ints;
  std::vector<float> floats;
};

enum class ReduceKind : uint8_t { Sum, Prod, Max, Min, ArgMax };

struct Prim {
  enum class Kind : uint8_t { Constant, Load, Lane, Reduce };
  Kind kind = Kind::Constant;
  ElementType type = ElementType::kF32;
  llvm::SmallVector<int, 3> operands;
  // Constant.
  double number = 0;
  int64_t integer = 0;
  // Load: from an operand, or from a table when `table` >= 0. `address` is in elements.
  int source = -1, table = -1;
  Affine address;
  // Lane.
  const ElementwiseOp* op = nullptr;
  ElementType in = ElementType::kInvalid;
  llvm::SmallVector<double, 2> params;
  // Reduce.
  ReduceKind reduce = ReduceKind::Sum;
  uint32_t reduceDims = 0;

  // Filled in by finishPlan.
  uint32_t deps = 0;     ///< Iteration dims that the value varies with.
  int stage = 0;         ///< Number of reductions that must be done before it can be computed.
  int64_t scratch = -1;  ///< Slot in local memory where its row is kept after its first stage, or -1.
  /// A TPC keeps its row in local memory: whatever a later pass would load or compute again. (On a CPU the cache does
  /// that for loads, and cheap arithmetic is repeated.)
  bool onTpcKept = false;
};

struct Store {
  int prim = -1;
  int output = 0;  ///< Operand index among the outputs.
  ElementType type = ElementType::kInvalid;
  Affine address;
  uint32_t dims = 0;  ///< Iteration dims that it is repeated over.
};

/// One loop nest. A kernel has several when an op is made of pieces (concat, pad).
struct KernelPlan {
  std::vector<IterDim> dims;  ///< The index space first, then dims that are only reduced over.
  int rank = 0;
  llvm::SmallVector<int64_t, 6> boxLow,
      boxHigh;  ///< The piece of the index space that it computes.
  std::vector<Prim> prims;
  std::vector<Table> tables;
  std::vector<Store> stores;
  int tapsOf[2] = {-1, -1};  ///< Dims along which a window op's windows slide.
  recipe::InputReads reads;  ///< Of the inputs; an input without entries is not read.

  // Filled in by finishPlan.
  std::vector<bool> reachable;                ///< Prims that a store needs.
  int vectorDim = -1;                         ///< Along which lanes lie; -1: scalar code.
  llvm::SmallVector<int, 8> parallelOrder;    ///< Outermost first; the vector dim last if it is one.
  llvm::SmallVector<int, 8> rowOrder;         ///< Row dims, outermost first.
  int windowDim = -1;                         ///< Parallel dim, inside the vector dim's loop, whose
                                              ///< neighbours are computed together by a window op.
  int64_t windowLow = 0, windowHigh = 0;      ///< Its range in which windows are whole along it.
  int mergeable = 0;                          ///< So many dims before the vector dim continue it in memory.
  int tpcMergeable = 0;                       ///< On a TPC, which repeats small tables so that they continue too.
  uint32_t rowDims = 0;                       ///< Mask of dims with `row`.
  int stages = 0;                             ///< Passes over a row before the results are computed.
  int64_t scratchSlots = 0, rowElements = 1;  ///< Local memory: slots of rowElements values.
  int64_t tpcSlots = 0;                       ///< The slots of a TPC, of one row.
};

/// Iterations over a dim when the whole index space is computed; those of a window's taps are fewer at the edges, so
/// this is their mean.
double extent(const KernelPlan& plan, int dim);

/// Whether a reduction works on registers of 128 16-bit floats: it sums up their products, which are of no other use
/// (v_bf16_mac_acc32_b), or takes their largest or least (v_bf16_max_b).
bool reducesNarrow(const KernelPlan& plan, const Prim& reduction);

/// Bytes of a slot of local memory: a row, or a row of vectors when the lanes are not along it.
inline int64_t slotBytes(const KernelPlan& plan) {
  bool alongRow = plan.vectorDim >= 0 && plan.dims[plan.vectorDim].row;
  return 4 * (alongRow ? plan.rowElements + kMaxLanes : plan.rowElements * kMaxLanes);
}

struct PlannedKernel {
  std::vector<KernelPlan> pieces;
  uint32_t rank = 0, wholeDims = 0;
  int numInputs = 0, numOutputs = 0;
  recipe::InputReads reads;  ///< Over all pieces.
};

/// Lowers a graph. Pure and quick (no codegen). Errors: kUnimplemented naming the op and the
/// reason, kInvalidArgument when views and graph do not fit together.
StatusOr<PlannedKernel> planKernel(const KernelGraph& graph, llvm::ArrayRef<OperandView> inputs,
                                   llvm::ArrayRef<OperandView> outputs);

}  // namespace hpu::kernels
