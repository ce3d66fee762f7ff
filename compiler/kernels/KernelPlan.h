// SPDX-License-Identifier: Apache-2.0
// What a kernel computes, reduced to four kinds of values over one iteration space: loads at affine
// addresses, constants, lane-wise ops and reductions. Plain data; LoopEmitter turns it into loops.
// The one thing to know: every op (softmax, pooling, concat, ...) is lowered to these, so loops,
// vectors, masks and local memory are decided in one place for all of them. Numbers are SymInt: of a symbolic kernel
// they may depend on sizes that are known at launch; what is right is then decided by what they are for all sizes, what
// is quick by their values at the representatives.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/kernels/ElementwiseOps.h"
#include "compiler/kernels/KernelGraph.h"
#include "llvm/ADT/SmallVector.h"
#include "recipe/CommandAccess.h"
#include "shape/Interval.h"
#include "shape/SymInt.h"

namespace hpu::kernels {

using shape::SymInt;

/// Sizes and element strides of an operand in its logical dims.
struct OperandView {
  ElementType type = ElementType::kInvalid;
  llvm::SmallVector<SymInt, 6> sizes, strides;
  /// Of an integer of rank 0 that is the same in every launch: for the price, no code depends on it.
  std::optional<int64_t> number = std::nullopt;
};

inline constexpr int kMaxIterDims = 16;
/// No variant's code has longer vectors (of any element type).
inline constexpr int64_t kMaxLanes = 64;
/// Of one call: the local memory of a TPC.
inline constexpr int64_t kMaxScratchBytes = 80 * 1024;

/// An i64 value computed at run time, times a factor.
struct Term {
  int prim = -1;
  SymInt factor = 1;
};
/// constant + sum of coef[d] * (iteration index of dim d) + the terms.
struct Affine {
  std::array<SymInt, kMaxIterDims> coef{};
  SymInt constant;
  llvm::SmallVector<Term, 1> terms;
};
/// Where each logical dim of a value is read: one Affine a dim.
using IndexMap = llvm::SmallVector<Affine, 6>;
/// 0 for all sizes.
inline bool isZero(const SymInt& number) {
  return number.isConstant() && number.value() == 0;
}

/// The taps of the window at position p that lie in [low, high) of the unpadded operand, as ir::WindowDim::taps has
/// them, where the ends depend on sizes that are known at launch.
struct TapBounds {
  int64_t kernel = 1, stride = 1, dilation = 1, padBegin = 0;
  SymInt low, high;
};

struct IterDim {
  SymInt size = 1;
  int indexDim = -1;  ///< The index-space dim that it is, or -1 for a dim that is only reduced over.
  bool row = false;   ///< Always iterated whole: reduced over, or along a row that is.
  /// A dim of the index space whose positions come from data, not from a loop over it: whole in every call.
  bool placed = false;
  /// For a window's taps: tables (of i64, by the index of dim `anchor`) of the first and one past
  /// the last tap inside the operand. -1: 0 and size.
  int anchor = -1, lowTable = -1, highTable = -1;
  /// The same where no table can say it: computed for each position along `anchor`.
  std::optional<TapBounds> taps;
  /// Whether a loop over it may leave out taps.
  bool isCut() const { return lowTable >= 0 || taps; }
  /// Whether it needs a loop: a single tap may still lie outside of the operand. A size that is given late needs one.
  bool runs() const { return !placed && (size != 1 || isCut()); }
};

/// Numbers known at compile time, kept in the image.
struct Table {
  ElementType type = ElementType::kI64;  ///< kI64 or kF32.
  std::vector<int64_t> ints;
  std::vector<float> floats;
};

enum class ReduceKind : uint8_t { Sum, Prod, Max, Min, ArgMax };

struct Prim {
  enum class Kind : uint8_t {
    Constant,
    Load,
    Lane,
    Reduce,
    Size,      ///< `size`, converted to `type`: a number that is known at launch.
    Index,     ///< `address` itself, as i64.
    TapCount,  ///< How many of `taps` there are at the index of dim `anchor`, at least 1, as f32.
    Pick,      ///< Where along a row the next one in order is (KernelPlan::pickDim), as i64.
  };
  Kind kind = Kind::Constant;
  ElementType type = ElementType::kF32;
  llvm::SmallVector<int, 3> operands;
  // Constant.
  double number = 0;
  int64_t integer = 0;
  // Size.
  SymInt size;
  // TapCount.
  std::optional<TapBounds> taps;
  int anchor = -1;
  // Load: from an operand, or from a table when `table` >= 0. `address` is in elements.
  int source = -1, table = -1;
  Affine address;
  // Lane.
  const ElementwiseOp* op = nullptr;
  ElementType in = ElementType::kInvalid;
  llvm::SmallVector<double, 2> params;
  /// A sum of two products, of which the host does not round the first: in vectors and their tails alike.
  bool isFused = false;
  /// A table with the same numbers at the representatives: what a TPC's code is priced with, as that of fixed sizes.
  int priceTable = -1;
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

/// `prim` is what one function, the same of all values of a group, gives for the row of an operand that `key` names.
struct KeyedRow {
  int prim = -1, key = -1;
};

/// A group of them, of keys that differ by at most one, whose rows come again at neighbours along a dim. The host's
/// code keeps two in local memory: of an even and of an odd key.
struct SharedRows {
  llvm::SmallVector<KeyedRow, 2> rows;
  // Filled in by finishPlan: places in local memory, in bytes.
  int64_t keys = 0, slots = 0, slotBytes = 0;
};

/// Values along one dim that the host's code computes once for many rows and then reads from local memory.
struct HostTable {
  int prim = -1, dim = -1;
  int64_t offset = 0;  ///< In local memory, in bytes.
};
/// The host's code with tables or shared rows goes through their dims in so many positions at a time.
inline constexpr int64_t kHostChunk = 512;

struct Store {
  int prim = -1;
  int output = 0;  ///< Operand index among the outputs.
  ElementType type = ElementType::kInvalid;
  Affine address;
  uint32_t dims = 0;   ///< Iteration dims that it is repeated over.
  int condition = -1;  ///< A bool: nothing is stored where it is false. -1: always.
};

/// What a kernel reads along one dimension of an input, as recipe::DimRead.
struct SymDimRead {
  int dim = -1;
  SymInt scale, low, high;
};
/// By input and its dimension.
using SymInputReads = std::vector<std::vector<SymDimRead>>;

/// One loop nest. A kernel has several when an op is made of pieces (concat, pad).
struct KernelPlan {
  std::vector<IterDim> dims;  ///< The index space first, then dims that are only reduced over.
  int rank = 0;
  llvm::SmallVector<SymInt, 6> boxLow,
      boxHigh;  ///< The piece of the index space that it computes.
  std::vector<Prim> prims;
  std::vector<Table> tables;
  std::vector<Store> stores;
  int tapsOf[2] = {-1, -1};  ///< Dims along which a window op's windows slide.
  SymInputReads reads;       ///< Of the inputs; an input without entries is not read.
  /// Rows are iterated one point after the other, in the order of `dims`: their stores may meet, and the last one
  /// stays.
  bool isOrdered = false;
  /// Its values are looked up in such a way that the host's lanes had better lie along the fastest dim of the outputs.
  bool isResized = false;
  /// finishPlan leaves those that are worth it.
  std::vector<SharedRows> sharedRows;
  /// Of a Prim::Kind::Pick: the row's dim, and the dim of the index space along which the picks are stored.
  int pickDim = -1, placeDim = -1;

  // Filled in by finishPlan.
  std::vector<bool> reachable;              ///< Prims that a store needs.
  int vectorDim = -1;                       ///< Along which lanes lie; -1: scalar code.
  llvm::SmallVector<int, 8> parallelOrder;  ///< Outermost first; the vector dim last if it is one.
  llvm::SmallVector<int, 8> rowOrder;       ///< Row dims, outermost first.
  int windowDim = -1;                       ///< Parallel dim, inside the vector dim's loop, whose
                                            ///< neighbours are computed together by a window op.
  SymInt windowLow, windowHigh;             ///< Its range in which windows are whole along it.
  int mergeable = 0;                        ///< So many dims before the vector dim continue it in memory.
  int tpcMergeable = 0;                     ///< On a TPC, which repeats small tables so that they continue too.
  uint32_t rowDims = 0;                     ///< Mask of dims with `row`.
  int stages = 0;                           ///< Passes over a row before the results are computed.
  int64_t scratchSlots = 0;                 ///< Local memory: slots of at most mostRowElements values.
  SymInt rowElements = 1;                   ///< Of a row.
  int64_t mostRowElements = 1;              ///< For all sizes within the bounds of free dimensions.
  int64_t tpcSlots = 0;                     ///< The slots of a TPC, of one row.
  int64_t slotElementBytes = 4;             ///< Of the widest float that may be kept in a slot.
  std::vector<HostTable> hostTables;
  uint32_t chunkedDims = 0;  ///< Mask of the dims of hostTables and sharedRows.
  int64_t hostBytes = 0;     ///< Local memory of both.
  /// The host's loops where they are other ones than a TPC's, else null.
  std::shared_ptr<const KernelPlan> host;
  const KernelPlan& hostPlan() const { return host ? *host : *this; }
};

/// Iterations over a dim when the whole index space is computed; those of a window's taps are fewer at the edges, so
/// this is their mean.
double extent(const KernelPlan& plan, int dim);
/// The same for all sizes, with the whole window.
SymInt symbolicExtent(const KernelPlan& plan, int dim);

/// Whether a reduction works on registers of 128 16-bit floats: it sums up their products, which are of no other use
/// (v_bf16_mac_acc32_b), or takes their largest or least (v_bf16_max_b).
bool reducesNarrow(const KernelPlan& plan, const Prim& reduction);

/// Bytes of an element in a register; 0 of a bool.
int64_t registerBytes(ElementType type);

/// Bytes of a slot of local memory: a row of so many elements, or a row of vectors when the lanes are not along it.
inline int64_t slotBytes(const KernelPlan& plan, int64_t rowElements) {
  bool alongRow = plan.vectorDim >= 0 && plan.dims[plan.vectorDim].row;
  return plan.slotElementBytes * (alongRow ? rowElements + kMaxLanes : rowElements * kMaxLanes);
}
/// For the longest rows.
inline int64_t slotBytes(const KernelPlan& plan) {
  return slotBytes(plan, plan.mostRowElements);
}

/// A kernel that comes as object code (hpu.native, or one of HostObjects.h).
struct NativeKernel {
  std::string object, objectV4, entry;  ///< objectV4 is empty where there is none.
  recipe::TpcCost cost;                 ///< Of a point.
  /// What no kernel can do with less, over the whole index space; nothing: what the cost says.
  std::optional<double> leastVectorOps;
  int64_t scratchBytes = 0;
  llvm::SmallVector<SymInt, 6> space;
  /// What its code gets as HpuKernelArgs::dims. Of hpu.native: of each operand the sizes, then the strides; then
  /// parameters.
  std::vector<SymInt> dims;
};

struct PlannedKernel {
  std::vector<KernelPlan> pieces;
  uint32_t rank = 0, wholeDims = 0;
  int numInputs = 0, numOutputs = 0;
  SymInputReads reads;  ///< Over all pieces.
  /// The numbers that the code may read from HpuKernelArgs::dims: what is no constant, each once.
  std::vector<SymInt> dims;
  /// Null of a kernel that is made of `pieces`.
  std::shared_ptr<const NativeKernel> native;
};
/// At the representatives.
recipe::InputReads readsAtRepresentatives(const SymInputReads& reads);

/// Lowers a graph. Pure and quick (no codegen). `bounds`: of the free dimensions that sizes depend on; rows are kept in
/// local memory only where the longest fits. Errors: kUnimplemented naming the op and the
/// reason, kInvalidArgument when views and graph do not fit together.
StatusOr<PlannedKernel> planKernel(const KernelGraph& graph, llvm::ArrayRef<OperandView> inputs,
                                   llvm::ArrayRef<OperandView> outputs, const shape::SymbolBounds& bounds = {});

}  // namespace hpu::kernels
