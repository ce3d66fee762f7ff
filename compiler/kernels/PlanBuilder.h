// SPDX-License-Identifier: Apache-2.0
// Lowers the nodes of a graph to the primitive values of a KernelPlan.
// The one thing to know: `lower(node, map)` gives the value of a node at the place that `map` names
// for each of its dims; views only change the map. A first error is kept and lowering goes on with
// dummies.
#pragma once

#include <map>

#include "compiler/kernels/KernelPlan.h"

namespace hpu::kernels {

class PlanBuilder {
 public:
  /// `piece` selects the part of a concat or pad that this plan computes.
  PlanBuilder(const KernelGraph& graph, llvm::ArrayRef<OperandView> inputs, llvm::ArrayRef<OperandView> outputs,
              int piece)
      : graph_(graph), inputs_(inputs), outputs_(outputs), piece_(piece) {}

  /// Lowers the whole graph; finishPlan completes the result.
  StatusOr<KernelPlan> build();
  /// Pieces that the graph's concat or pad has (1 without one), known after build().
  int pieces() const { return numPieces_; }

  // ---- For the lowering of ops ----
  int lower(int node, const IndexMap& map);
  const Node& node(int index) const { return graph_.nodes[index]; }
  /// The map of an operand that broadcasts against a node's result (NumPy's alignment).
  IndexMap broadcastMap(const IndexMap& map, llvm::ArrayRef<SymInt> operandShape) const;
  int constant(double value, ElementType type);
  /// A number that may be known at launch only.
  int size(const SymInt& number, ElementType type);
  /// The position that an address is, as i64.
  int index(const Affine& position);
  /// How many taps there are at the index of dim `anchor`, at least 1, as f32.
  int tapCount(const TapBounds& taps, int anchor);
  int lane(mlir::TypeID op, llvm::ArrayRef<int> operands, ElementType result, llvm::ArrayRef<double> params = {});
  /// The bits of a value as an integer: of what memory holds as they are there, of a computed value once rounded.
  int bitsOf(int prim);
  int reduce(ReduceKind kind, int operand, uint32_t dims, ElementType type);
  /// A load of graph input `input`, or of a view of it, at `map`.
  int load(int input, const IndexMap& map);
  int table(Table table);
  /// table[index of dim], or its first entry for dim -1.
  int loadTable(int table, int dim);
  /// a * b + c * d, of f32, as Prim::isFused has it.
  int sumOfProducts(int a, int b, int c, int d);
  /// Says that at the representatives a lane-wise op's results are a table's.
  int pricedAs(int prim, Table table);
  /// A dim of the updates of a scatter, which its stores are repeated over; they are iterated in the order of the
  /// calls.
  int updateDim(const std::string& key, const SymInt& size);
  /// The values of input `input` at `map` as they are when the updates before have been stored.
  int loadUpdated(int input, const IndexMap& map);
  /// Positions along row dim `row`, by falling `key`, as many as index-space dim `place` has.
  int pick(int key, int row, int place);
  /// A new dim that is reduced over; equal keys give the same dim.
  int reductionDim(const std::string& key, const SymInt& size);
  IterDim& dim(int index) { return plan_.dims[index]; }
  int numDims() const { return static_cast<int>(plan_.dims.size()); }
  /// The iteration dim that `affine` is (coefficient 1, nothing else), or -1.
  int pureDim(const Affine& affine) const;
  /// Which input a node is, or -1.
  int inputOf(int node) const { return graph_.nodes[node].input; }
  const OperandView& inputView(int input) const { return inputs_[input]; }

  /// Says that values are those of one function for rows that keys name; keys differ by at most one at each position.
  void shareRows(llvm::ArrayRef<KeyedRow> rows) {
    plan_.sharedRows.emplace_back().rows.append(rows.begin(), rows.end());
  }

  void setResized() { plan_.isResized = true; }

  /// Says that windows slide along a dim (of the index space, or -1).
  void setTaps(int which, int dim) { plan_.tapsOf[which] = dim; }

  /// Sets the number of pieces and this plan's box along a dim.
  int choosePiece(int count);
  /// `low` and `high` lie within the dim, for all sizes.
  void restrictBox(int dim, const SymInt& low, const SymInt& high);

  int fail(const Node& node, const std::string& why);
  int rankOfIndexSpace() const { return plan_.rank; }

 private:
  struct Key;
  int add(Prim prim);
  void finishStore(Store store);
  SymDimRead dimRead(const Affine& affine) const;
  /// The operand of a lane-wise op, at the places that its result's `map` names.
  int broadcastOperand(const Node& node, int operand, const IndexMap& map);
  std::vector<int64_t> mapKey(const IndexMap& map);

  const KernelGraph& graph_;
  llvm::ArrayRef<OperandView> inputs_, outputs_;
  int piece_, numPieces_ = 1;
  bool pieceChosen_ = false;
  KernelPlan plan_;
  std::map<std::pair<int, std::vector<int64_t>>, int> lowered_;
  std::map<std::string, int> reductionDims_, primKeys_;
  std::vector<SymInt> keyed_;  ///< Numbers that are no constants, as mapKey() counts them.
  Status error_;
};

/// A table has an entry for each position along a dimension and is part of the kernel's image: so many at most.
inline constexpr int64_t kMostTableEntries = 1 << 22;

/// How an op that is not elementwise is lowered; each table lists a family.
struct OpLowering {
  mlir::TypeID op;
  int (*lower)(PlanBuilder&, const Node&, const IndexMap&);
};
llvm::ArrayRef<OpLowering> rowLowerings();       ///< Softmax, norms, reductions.
llvm::ArrayRef<OpLowering> windowLowerings();    ///< Pooling, depthwise convolution.
llvm::ArrayRef<OpLowering> movementLowerings();  ///< Concat, pad, gather, resize, views.

/// An op that is stored where it says: the only result of its kernel.
struct StoreLowering {
  mlir::TypeID op;
  /// Sets what is stored; along which dims of the result (`placed`) its positions are not those of the index space, and
  /// what they are instead; and the condition.
  struct Result {
    int prim = -1, condition = -1;
    IndexMap places;  ///< One a dim of the result.
    uint32_t placed = 0;
  };
  Result (*lower)(PlanBuilder&, const Node&, const IndexMap&);
};
llvm::ArrayRef<StoreLowering> scatterLowerings();  ///< Scatters, and picks of the largest.

/// The kernel of an hpu.native; nothing of a graph without one.
std::optional<StatusOr<PlannedKernel>> planNative(const KernelGraph& graph, llvm::ArrayRef<OperandView> inputs,
                                                  llvm::ArrayRef<OperandView> outputs);

/// Chooses loop order, vector dim (unless it is given) and local memory.
Status finishPlan(KernelPlan& plan, const shape::SymbolBounds& bounds, int vectorDim = -1);

/// The dim of the host's lanes in a finished plan, where it is another one than a TPC's; else -1.
int hostVectorDim(const KernelPlan& plan);
/// Chooses what the host's code keeps in tables and rows; the last step of finishPlan.
void planHostTables(KernelPlan& plan);

bool isBitcast(const Prim& prim);
/// Reads that cover both.
void uniteReads(std::vector<SymDimRead>& all, const std::vector<SymDimRead>& more);
/// +1 and -1 where a number has that sign, or is 0, for all sizes; 0 where that is not known. 0 itself counts as +1.
int signOf(const SymInt& number);

}  // namespace hpu::kernels
