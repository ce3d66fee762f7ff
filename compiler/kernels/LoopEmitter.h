// SPDX-License-Identifier: Apache-2.0
// Turns a KernelPlan into loops over vectors: scf loops, arith/math/vector ops on registers, and
// memory accesses through pointers (the LLVM dialect). This is the vector-level IR that costs are
// read from. The one thing to know: a value is computed in the outermost loop in which all it
// varies with is fixed; scopes remember what is known there.
#pragma once

#include <functional>
#include <map>

#include "compiler/kernels/KernelPlan.h"
#include "compiler/kernels/VectorMath.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/IR/BuiltinOps.h"

namespace hpu::kernels {

/// What the code of a CPU variant looks like.
struct VariantTraits {
  const char* cpu = "x86-64-v3";
  int64_t lanes = 32;         ///< Values a vector holds at most, whatever their type.
  bool narrowMasks = false;   ///< Masked accesses of 1- and 2-byte elements exist.
  int64_t windowOutputs = 2;  ///< Outputs of a depthwise convolution that are computed together.
  /// Not code to run but a TPC's, for its cost: some operands come from local memory (Staging.h).
  bool forCost = false;
};

/// Attributes of the loops: how often the body runs when the kernel computes its whole index space,
/// for the cost: f64, with vectors of kTpcLanes.
inline constexpr llvm::StringLiteral kTripsAttr = "hpu.trips";
/// Of the `else` of an scf.if.
inline constexpr llvm::StringLiteral kElseTripsAttr = "hpu.else_trips";
/// Of both, beside the number at the representatives: which of the emitted trips it is, where it is no constant.
inline constexpr llvm::StringLiteral kLateTripsAttr = "hpu.late_trips";
inline constexpr llvm::StringLiteral kLateElseTripsAttr = "hpu.late_else_trips";
/// Of a loop that a TPC's code has unrolled: over the taps of a window, or the lanes of a register.
inline constexpr llvm::StringLiteral kUnrolledAttr = "hpu.unrolled";
/// Of a load or store: to local memory, so many of it (f64; below 1 where neighbours have what they need in registers).
inline constexpr llvm::StringLiteral kLocalAttr = "hpu.local";
/// Of a TPC vector register: 256 bytes of f32.
inline constexpr int64_t kTpcLanes = 64;

/// Adds `llvm.func @name(args)` with the kernel's code to the module. `trips`: what kLateTripsAttr counts into.
void emitKernel(mlir::ModuleOp module, llvm::StringRef name, const PlannedKernel& kernel, const VariantTraits& traits,
                std::vector<SymInt>* trips = nullptr);

class LoopEmitter {
 public:
  using Value = mlir::Value;
  LoopEmitter(VectorMath& math, mlir::ModuleOp module, const VariantTraits& traits, Value args,
              const PlannedKernel& kernel, mlir::Block* entry, std::vector<SymInt>* trips);
  /// Emits one loop nest.
  void emit(const KernelPlan& plan, int piece);

 private:
  struct Scope {
    llvm::DenseMap<int, Value> values;     ///< By prim: scalar, or vector where it varies along the lanes.
    llvm::DenseMap<int, Value> broadcast;  ///< Scalars spread over the lanes.
    struct Partial {
      Value pointer;
      uint32_t dims = 0;
      bool terms = false;
    };
    llvm::DenseMap<int, Partial> addresses;  ///< What is already added to the address of a load or store.
    uint32_t available = 0;                  ///< Dims whose index is known.
    Value mask,
        active;  ///< In the tail of a vector loop: the lanes that exist, as a mask and as i64.
  };
  using Values = llvm::SmallVector<Value, 4>;
  using Body = std::function<Values(llvm::ArrayRef<Value>)>;

  // Loops (LoopEmitter.cpp).
  void chooseLanes();
  bool isTap(int dim) const {
    return plan_->dims[dim].indexDim < 0 && (plan_->tapsOf[0] >= 0 || plan_->tapsOf[1] >= 0);
  }
  bool isCut(const IterDim& dim) const;
  void setTrips(mlir::Operation* op, const SymInt& trips, double atRepresentatives, bool isElse = false);
  Value low(int dim);
  Value high(int dim);
  void setBounds();
  void parallel(size_t level);
  void rows();
  void storeAll(llvm::ArrayRef<int> indices);
  static void appendRoots(const Store& store, llvm::SmallVector<int>& roots);
  void windowRow(int dim);
  void windowOutputs(Value first, int64_t count);
  Values rowLoops(size_t level, llvm::ArrayRef<int> order, llvm::ArrayRef<int> roots, llvm::ArrayRef<Value> init,
                  const Body& body);
  Values loop(int dim, Value low, Value high, llvm::ArrayRef<Value> init, const Body& body);
  Values scalarLoop(int dim, Value low, Value high, llvm::ArrayRef<Value> init, const Body& body);
  Values vectorLoop(int dim, Value low, Value high, llvm::ArrayRef<Value> init, const Body& body);
  llvm::SmallVector<int> storeRoots() const;

  // Tables and rows of the host's code (HostTables.cpp).
  bool hasHostTables() const { return plan_->chunkedDims != 0 && !traits_.forCost; }
  void chunks(int dim);
  void fillTables();
  void forgetRows();
  void bringRows();
  void bringRow(const SharedRows& group, const KeyedRow& row);
  /// Whether it is read from there by now.
  bool isTableOrRow(int prim) const { return inTables_.contains(prim) || sharedRows_.contains(prim); }
  Value tableOrRow(int prim);
  Value atIndex(Value base, int dim, int64_t elementBytes);

  // Values (LoopValues.cpp).
  void hoist(llvm::ArrayRef<int> roots);
  bool hoistOne(int prim, llvm::DenseMap<int, bool>& seen);
  Value eval(int prim);
  Value vectorOf(int prim);
  Value compute(int prim);
  Value sizeValue(const Prim& prim);
  Value tapCount(const Prim& prim);
  bool alongLanes(int prim) const;
  mlir::Type vectorType(mlir::Type element) const;

  // Reductions (LoopReductions.cpp).
  struct Accumulator {
    int prim;
    bool vector;
    int values;  ///< 2 for ArgMax: value and index.
  };
  llvm::SmallVector<Accumulator, 4> accumulatorsOf(int pass, llvm::SmallVector<int>& roots);
  void reducePass(int pass);
  void finish(const Accumulator& acc, Values values);
  Values neutral(const Accumulator& acc);
  Values combine(const Accumulator& acc, llvm::ArrayRef<Value> old);
  Values merge(const Prim& prim, llvm::ArrayRef<Value> a, llvm::ArrayRef<Value> b);
  Values acrossLanes(const Prim& prim, Values values);
  Values foldLanes(const Prim& prim, Values values);
  /// The lower and the upper half of what is left of each vector.
  std::pair<Values, Values> halves(llvm::ArrayRef<Value> values, int64_t width);
  void picks();
  Values nextPick(int key, bool isSigned, llvm::ArrayRef<Value> before);

  // Memory (MemoryAccess.cpp).
  void loadPointers(Value args, int operands, int rank);
  /// The product of numbers and a factor as i64: a constant, or what is computed once at the kernel's entry from
  /// HpuKernelArgs::dims.
  Value number(llvm::ArrayRef<SymInt> factors, int64_t constant = 1);
  Value number(const SymInt& number, int64_t factor = 1) { return this->number(llvm::ArrayRef(number), factor); }
  Value lateNumber(const SymInt& number);
  /// The first tap (or one past the last) of the window at the index of `anchor`.
  Value tapAt(const TapBounds& taps, int anchor, const SymInt& bound);
  Value position(const Affine& affine, bool vector);
  Value strided(const SymInt& step, int64_t factor);
  Value gep(Value pointer, Value byteOffset);
  Value address(int key, Value base, const Affine& affine, int64_t elementBytes, bool partial);
  Value laneOffsets(const Affine& affine, int64_t elementBytes);
  Value load(int prim);
  Value loadVector(Value pointer, ElementType type, Value byteOffsets, const SymInt& laneStride);
  Value fromStorage(Value stored, ElementType type);
  Value toStorage(Value value, ElementType type);
  mlir::Type storageType(ElementType type);
  void store(const Store& store, int index);
  void storeAlways(const Store& store, int index);
  void storeLanes(const Store& store, Value value, Value pointer, Value offsets);
  Value tableBase(int table);
  Value stackBuffer(int which);
  void laneLoop(const std::function<void(Value lane)>& body);
  Value scratchAddress(int prim);
  Value laneCount();

  // What differs where the code is a TPC's, for its cost (TpcCode.cpp).
  int mergeable() const { return traits_.forCost ? plan_->tpcMergeable : plan_->mergeable; }
  /// Its row goes to local memory when it is first computed.
  bool isKept(int prim) const {
    return traits_.forCost ? plan_->prims[prim].onTpcKept : plan_->prims[prim].scratch >= 0;
  }
  /// Whether a TPC's code, at the representatives, has its values in a table.
  bool isTabulated(int prim) const { return traits_.forCost && plan_->prims[prim].priceTable >= 0; }
  /// A TPC's loads outside of a tensor give a value that changes nothing, so that rows need no bounds.
  bool loadsBeyondTensors() const { return traits_.forCost; }
  /// Marks an access to local memory.
  template <typename Access>
  Access local(Access access, double share = 1) {
    if (traits_.forCost) access->setAttr(kLocalAttr, b_.getF64FloatAttr(share));
    return access;
  }
  /// `build` at the price that a TPC has for a step of a reduction: one element more, or the lanes of a register.
  enum class Step { kElement, kAcrossLanes };
  Value priced(Step step, const Prim& reduction, llvm::function_ref<Value()> build);
  /// Null, or false, where a TPC loads or stores as the host does.
  Value tpcLoad(int prim, Value base);
  Value tabulated(int prim);
  bool tpcStore(const Store& store, Value value, Value base);
  Value turned(Value rows);
  Value rearranged(Value lanes, double instructions);

  VectorMath& m_;
  mlir::OpBuilder& b_;
  mlir::Location loc_;
  mlir::ModuleOp module_;
  const VariantTraits& traits_;
  mlir::Block* entry_;
  llvm::SmallVector<Value> operands_, lo_, hi_;
  Value args_, scratch_;
  const PlannedKernel& kernel_;
  std::vector<SymInt>* trips_;
  /// Numbers that are known at launch, and products of them: by position in PlannedKernel::dims, and the constant.
  std::map<std::pair<std::vector<size_t>, int64_t>, Value> numbers_;
  Value stack_[2];

  const KernelPlan* plan_ = nullptr;
  int piece_ = 0;
  int64_t lanes_ = 1;
  llvm::SmallVector<Value> lowOf_, highOf_;
  std::array<Value, kMaxIterDims> index_{};
  llvm::DenseMap<int, Value> tables_;
  llvm::DenseSet<int> kept_,
      keeping_;                                     ///< Prims in local memory: from earlier passes, from this one.
  llvm::DenseMap<int, const HostTable*> inTables_;  ///< By prim: what the tables have by now.
  llvm::DenseMap<int, Value> sharedRows_;           ///< By prim: the row of the present key.
  SymInt mergedExtent_ = 1;
  bool wholeWindow_ = false;  ///< Windows are whole along windowDim.
  int64_t together_ = 1;      ///< Outputs along windowDim that are computed together.
  Scope scope_;
};

}  // namespace hpu::kernels
