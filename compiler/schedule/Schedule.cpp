// SPDX-License-Identifier: Apache-2.0
// Phase schedule. In: units with addresses and tiles. Out: one sched.program, proven by hpu-verify-schedule and,
// on the finished recipe, by recipe::checkSchedule. Stop after it with --stop-after=schedule.
// Units become descriptors in program order; Issue.cpp slices them and decides the order of the commands.
#include "compiler/schedule/Schedule.h"

#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/dialect/sched/SchedRecords.h"
#include "compiler/layout/Chains.h"
#include "compiler/layout/Orders.h"
#include "compiler/memory/Memory.h"
#include "compiler/schedule/ProgramBuilder.h"
#include "compiler/support/DiagnosticCapture.h"
#include "compiler/support/Units.h"
#include "llvm/Support/FormatVariadic.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "plan/Issue.h"
#include "recipe/MmePacking.h"

using namespace mlir;
using namespace hpu::ir;
using hpu::sched::OperandAttr;

namespace hpu::schedule {
namespace {

constexpr unsigned kQueues = 3;  // one an engine: MME, TPC, DMA
/// A kernel joins at most so many parts (compiler/kernels); more are copied by a kernel each.
constexpr size_t kMostParts = kMaxKernelTensors - 1;

class Scheduler {
 public:
  Scheduler(func::FuncOp function, OpBuilder& builder, const ScheduleOptions& options)
      : function_(function), builder_(builder), options_(options), program_(function, builder) {}

  Status run() {
    for (Operation& op : function_.getBody().front()) {
      // A unit that takes turns with those before it is part of theirs.
      if (isUnit(&op)) firstOfStep_.push_back(static_cast<int64_t>(units_.size()) - (takesTurns_ ? 1 : 0));
      if (auto bundle = dyn_cast<BundleOp>(&op)) scheduleBundle(bundle);
      if (auto cluster = dyn_cast<ClusterOp>(&op)) scheduleCluster(cluster);
      if (isa<ConcatOp, RelayoutOp>(op)) scheduleCopy(&op);
      unit_ += isUnit(&op);
      if (isUnit(&op)) lastOfStep_.push_back(static_cast<int64_t>(units_.size()) - 1);
    }
    auto bytes = [&](const char* name) { return function_->getAttrOfType<IntegerAttr>(name).getInt(); };
    program_.finish(bytes(memory::kWorkspaceAttr), bytes(memory::kSramAttr));
    program_.program().setNumSignals(kQueues);
    if (program_.isLate()) recordLate();
    if (options_.descriptorsOnly) return okStatus();
    HPU_ASSIGN(Draft draft, options_.draft(program_.program()));
    std::vector<std::vector<plan::SlicedCommand>> sliced;
    plan::IssueContext context{*draft.program, draft.reads, *options_.target, options_.target->clock()};
    for (const plan::IssueUnit& unit : units_) sliced.push_back(plan::sliceUnit(context, unit));
    std::vector<const std::vector<plan::SlicedCommand>*> pointers;
    for (const auto& commands : sliced) pointers.push_back(&commands);
    HPU_ASSIGN(plan::Issued issued, plan::issueCommands(context, pointers, options_.reorder));
    emitQueues(issued.queues);
    summarise(issued.queues);
    return okStatus();
  }

 private:
  // ---- Sizes that are given late ---------------------------------------------------------------------

  /// On the program: its units, and its storages with the units that use them.
  void recordLate() {
    Builder b(function_.getContext());
    auto number = [&](const char* name, int64_t value) { return b.getNamedAttr(name, b.getI64IntegerAttr(value)); };
    SmallVector<Attribute> units, storages;
    for (const auto& [index, unit] : llvm::enumerate(units_)) {
      SmallVector<Attribute> parts;
      for (size_t p = 0; p <= unit.chained.size(); ++p) {
        const plan::IssueUnit& part = p == 0 ? unit : unit.chained[p - 1];
        SmallVector<NamedAttribute> fields = {
            b.getNamedAttr("ops", b.getDenseI64ArrayAttr(SmallVector<int64_t>(part.ops.begin(), part.ops.end()))),
            b.getNamedAttr("tile", b.getDenseI64ArrayAttr(part.tile))};
        if (ArrayAttr choices = choices_.lookup({index, p})) fields.push_back(b.getNamedAttr("choices", choices));
        parts.push_back(b.getDictionaryAttr(fields));
      }
      units.push_back(
          b.getDictionaryAttr({number("bundle", unit.bundle == recipe::kNone ? -1 : static_cast<int64_t>(unit.bundle)),
                               b.getNamedAttr("parts", b.getArrayAttr(parts))}));
    }
    const int64_t last = std::max<int64_t>(static_cast<int64_t>(units_.size()) - 1, 0);
    auto recorded = function_->getAttrOfType<ArrayAttr>(memory::kStoragesAttr);
    for (Attribute each : recorded ? recorded : b.getArrayAttr({})) {
      auto storage = cast<DictionaryAttr>(each);
      auto step = [&](const char* name) { return static_cast<size_t>(storage.getAs<IntegerAttr>(name).getInt()); };
      // A step of which nothing is left (a concatenation in place) is between the units around it.
      const int64_t begin = step("begin") < firstOfStep_.size() ? std::min(firstOfStep_[step("begin")], last) : last;
      const int64_t end = step("end") < lastOfStep_.size() ? lastOfStep_[step("end")] : last;
      NamedAttrList fields(storage);
      fields.set("begin", b.getI64IntegerAttr(begin));
      fields.set("end", b.getI64IntegerAttr(std::clamp<int64_t>(end, begin, last)));
      storages.push_back(fields.getDictionary(function_.getContext()));
    }
    program_.program()->setAttr(kUnitsAttr, b.getArrayAttr(units));
    program_.program()->setAttr(memory::kStoragesAttr, b.getArrayAttr(storages));
  }

  // ---- Units ---------------------------------------------------------------------------------------

  void scheduleBundle(BundleOp bundle) {
    Block& body = bundle.getBody().front();
    Operation* mme = nullptr;
    KernelPart part;
    for (Operation& op : body.without_terminator()) {
      if (cast<HpuOp>(op).getEngine() == EngineKind::Mme)
        mme = &op;
      else
        part.ops.push_back(&op);
    }
    Value product = mme->getResult(0);
    // A tile lies as the bundle's result does, so that both sides walk it alike.
    RankedTensorType type = withOrder(tensorOf(product), physicalOrder(tensorOf(bundle.getResult(0))));
    if (part.ops.empty()) return add(bundle, {mmeOp(bundle, mme, program_.operand(bundle.getResult(0)))});
    memory::RingInfo ring = *memory::ringOf(bundle);
    int64_t step = type.getDimSize(ring.dim);
    if (TileAttr tile = bundle.getTileAttr()) step = tile.getSizes()[ring.dim];
    OperandAttr tile = program_.ringOperand(ring, type, step);
    sched::MmeOp mmeDescriptor = mmeOp(bundle, mme, tile);
    add(bundle, {mmeDescriptor, tpcOp(bundle, part, product, tile)});
  }

  void scheduleCluster(ClusterOp cluster) {
    KernelPart part;
    if (OpOperand* data = layout::updatedBy(cluster)) takeOver(cluster, *data);
    for (Operation& op : cluster.getBody().front().without_terminator()) part.ops.push_back(&op);
    add(cluster, {tpcOp(cluster, part, {}, {})});
    updated_ = {};
  }

  /// What a scatter does not update has to be where its result lies: a copy of the data, unless it lies there itself.
  /// The kernel reads data, if at all, from there.
  void takeOver(ClusterOp cluster, OpOperand& data) {
    Value value = data.get();
    OperandAttr src = program_.operand(value), dst = program_.operand(cluster->getResult(0));
    if (!llvm::is_contained(src.getSizes(), 0) && !samePlace(src, dst)) addCopy(cluster, value, src, dst);
    Operation* scatter = layout::rootOf(cluster);
    Block& body = cluster.getBody().front();
    const auto mode = scatter->getAttrOfType<IntegerAttr>("mode");
    const bool replaces = !mode || mode.getInt() == static_cast<int64_t>(ScatterMode::replace);
    if (replaces) {
      OpBuilder at = OpBuilder::atBlockBegin(&body);
      RankedTensorType type = tensorOf(value);
      auto none = SplatElementsAttr::get(type, at.getZeroAttr(type.getElementType()));
      scatter->setOperand(0, ConstantOp::create(at, scatter->getLoc(), type, none));
    } else {
      // An argument of its own: updates may be a view of the same value.
      cluster->insertOperands(cluster->getNumOperands(), value);
      updated_ = body.addArgument(value.getType(), value.getLoc());
      scatter->setOperand(0, updated_);
    }
  }

  /// Adds a unit that consists of `descriptors`; several of them, or several slices, are a bundle of the program.
  void add(Operation* source, ArrayRef<Operation*> descriptors) {
    plan::IssueUnit unit;
    SmallVector<Attribute> members;
    for (Operation* descriptor : descriptors) {
      unit.ops.push_back(symbols_.size());
      symbols_.push_back(cast<SymbolOpInterface>(descriptor).getName().str());
      members.push_back(FlatSymbolRefAttr::get(descriptor));
    }
    ArrayRef<int64_t> space = tensorOf(source->getResult(0)).getShape();
    int64_t slices = 1;
    if (auto tile = source->getAttrOfType<TileAttr>("tile")) {
      unit.tile.assign(tile.getSizes().begin(), tile.getSizes().end());
      slices = plan::sliceCount({space.begin(), space.end()}, unit.tile);
    }
    std::string label = unitName(source);
    const auto choices = source->getAttrOfType<ArrayAttr>(kTileChoicesAttr);
    if (takesTurns_) {
      if (choices) choices_[{units_.size() - 1, units_.back().chained.size() + 1}] = choices;
      chainMembers_.append(members);
      chainName_ += " > " + label;
      units_.back().chained.push_back(std::move(unit));
    } else {
      chainMembers_ = std::move(members);
      chainName_ = std::move(label);
      if (choices) choices_[{units_.size(), 0}] = choices;
      units_.push_back(std::move(unit));
    }
    // A chain is one bundle, complete with its last unit.
    std::optional<ChainLink> link = chainOf(source);
    takesTurns_ = link && link->interleaved();
    if (takesTurns_ || (slices == 1 && chainMembers_.size() == 1)) return;
    sched::BundleOp::create(builder_, source->getLoc(), chainName_, builder_.getArrayAttr(chainMembers_), slices);
    units_.back().bundle = bundles_++;
  }

  void scheduleCopy(Operation* copy) {
    OperandAttr whole = program_.operand(copy->getResult(0));
    auto concat = dyn_cast<ConcatOp>(copy);
    int64_t elementBytes = elementSize(elementType(whole.getElement())), offset = 0;
    shape::SymInt symOffset = 0;
    struct Part {
      Value input;
      OperandAttr src, dst;
    };
    SmallVector<Part> parts;
    for (Value input : copy->getOperands()) {
      OperandAttr src = program_.operand(input);
      OperandAttr dst = OperandAttr::get(builder_.getContext(), whole.getSection(), whole.getOffset() + offset,
                                         whole.getElement(), src.getSizes(), whole.getStrides(), {},
                                         program_.partOf(copy->getResult(0), input, symOffset));
      if (concat && program_.isLate())
        symOffset += symSizes(tensorOf(input))[concat.getAxis()] *
                     resolveSymView(copy->getResult(0))->strides[concat.getAxis()] * elementBytes;
      if (concat) offset += src.getSizes()[concat.getAxis()] * whole.getStrides()[concat.getAxis()] * elementBytes;
      // Nothing, or written in place by its producer.
      if (!llvm::is_contained(src.getSizes(), 0) && !samePlace(src, dst)) parts.push_back({input, src, dst});
    }
    bool all = parts.size() == copy->getNumOperands() && parts.size() <= kMostParts;
    if (options_.target->numDmas == 0 && all) {  // copies are TPC kernels there
      KernelPart part;
      part.ops.push_back(copy);
      llvm::append_range(part.inputs, llvm::SetVector<Value>(copy->operand_begin(), copy->operand_end()));
      part.outputs.push_back(copy->getResult(0));
      return add(copy, {describeTpc(copy, part, operands(part.inputs), operands(part.outputs))});
    }
    for (const Part& part : parts) addCopy(copy, part.input, part.src, part.dst);
  }

  /// A unit of its own that copies `input` for `unit`.
  void addCopy(Operation* unit, Value input, OperandAttr src, OperandAttr dst) {
    std::string symbol;
    if (options_.target->numDmas == 0) {
      symbol = copyKernel(unit, input, src, dst).getSymName().str();
    } else {
      auto op = sched::DmaOp::create(builder_, unit->getLoc(), program_.symbol("dma"), src, dst);
      name(op, unit);
      symbol = op.getSymName().str();
    }
    units_.push_back({{static_cast<uint32_t>(symbols_.size())}, {}, recipe::kNone, 0});
    symbols_.push_back(std::move(symbol));
  }

  static bool samePlace(OperandAttr a, OperandAttr b) {
    if (a.getSection() != b.getSection() || a.getOffset() != b.getOffset() || a.getElement() != b.getElement())
      return false;
    for (size_t d = 0; d < a.getSizes().size(); ++d)
      if (a.getSizes()[d] != 1 && a.getStrides()[d] != b.getStrides()[d]) return false;
    return true;
  }

  /// A TPC kernel that copies one part of a concatenation, or the data of a scatter.
  sched::TpcOp copyKernel(Operation* copy, Value input, OperandAttr src, OperandAttr dst) {
    OpBuilder at(copy);
    auto relayout = RelayoutOp::create(at, copy->getLoc(), input.getType(), input);
    KernelPart part;
    part.ops.push_back(relayout);
    part.inputs.push_back(input);
    part.outputs.push_back(relayout.getResult());
    sched::TpcOp op = describeTpc(copy, part, Attribute(src), Attribute(dst));
    relayout.erase();
    return op;
  }

  // ---- Descriptors ---------------------------------------------------------------------------------

  Value outer(Operation* unit, Value inner) {
    auto argument = dyn_cast<BlockArgument>(inner);
    return argument && argument.getOwner()->getParentOp() == unit ? unit->getOperand(argument.getArgNumber()) : inner;
  }

  SmallVector<Attribute> operands(ArrayRef<Value> values) {
    SmallVector<Attribute> result;
    for (Value value : values) result.push_back(program_.operand(value));
    return result;
  }

  sched::MmeOp mmeOp(BundleOp bundle, Operation* mme, OperandAttr c) {
    Value a = outer(bundle, mme->getOperand(0)), b = outer(bundle, mme->getOperand(1));
    StridedView weights = *resolveView(b);
    bool packed = weights.base.getDefiningOp<ConstantOp>() && hasFixedSizes(b, weights);
    OpBuilder& at = builder_;
    DenseI64ArrayAttr strides, dilations, pads;
    int64_t groups = 1;
    sched::MmeKind kind = sched::MmeKind::gemm;
    OperandAttr left, right;
    if (auto matmul = dyn_cast<MatMulOp>(mme)) {
      const SymInts shape = symSizes(tensorOf(matmul.getResult()));
      const ArrayRef<shape::SymInt> batch = ArrayRef(shape).drop_back(2);
      left = program_.broadcastOperand(a, batch);
      if (batch.empty()) left = program_.operand(a);
      right = packed          ? packedGemm(weights, batch.size())
              : batch.empty() ? program_.operand(b)
                              : program_.broadcastOperand(b, batch);
    } else if (auto conv = dyn_cast<Conv2dOp>(mme)) {
      kind = sched::MmeKind::conv2d;
      groups = conv.getGroups();
      strides = conv.getStridesAttr();
      dilations = conv.getDilationsAttr();
      pads = conv.getPadsAttr();
      left = program_.operand(a);
      right = packed ? packedConv(weights, groups, /*transposed=*/false) : program_.operand(b);
    } else {
      auto transposed = cast<ConvTranspose2dOp>(mme);
      kind = sched::MmeKind::conv_transpose2d;
      groups = transposed.getGroups();
      strides = transposed.getStridesAttr();
      dilations = transposed.getDilationsAttr();
      // Output padding is a negative padding at the end.
      SmallVector<int64_t> ends(transposed.getPads());
      for (int i = 0; i < 2; ++i) ends[2 + i] -= transposed.getOutputPadding()[i];
      pads = at.getDenseI64ArrayAttr(ends);
      left = program_.operand(a);
      right = packed ? packedConv(weights, groups, /*transposed=*/true) : program_.operand(b);
    }
    auto op = sched::MmeOp::create(at, mme->getLoc(), program_.symbol("mme"), kind, left, right, c, packed, strides,
                                   dilations, pads, groups);
    name(op, bundle);
    if (auto factor = mme->getAttrOfType<IntegerAttr>(kPackingAttr); factor && factor.getType().isSignlessInteger(64))
      pack(op, factor.getInt());
    return op;
  }

  /// Packs a product as the phase tile decided, unless its operands have got places since that do not allow it (a
  /// result within a concatenation, say).
  void pack(sched::MmeOp op, int64_t factor) {
    recipe::MmeDesc mme = sched::toMmeDesc(op);
    mme.packingFactor = factor;
    if (std::string why = recipe::packingObstacle(mme, factor); !why.empty()) {
      if (options_.report) *options_.report += "missed   packing: " + op.getSymName().str() + why + "\n";
      return;
    }
    op.setPackingFactor(factor);
    program_.reserveConstants(op.getB(), recipe::packedWeightBytes(mme));
  }

  /// Weights are packed once for all launches: of a repeated number or part of a table whose sizes are given late each
  /// launch reads its own.
  static bool hasFixedSizes(Value value, const StridedView& view) {
    return llvm::all_of(llvm::enumerate(symSizes(tensorOf(value))), [&](const auto& dim) {
      const bool isBatch = dim.index() + 2 < view.strides.size();
      return dim.value().isConstant() || (isBatch && view.strides[dim.index()] == 0);
    });
  }

  OperandAttr packedGemm(const StridedView& w, size_t batchRank) {
    SmallVector<int64_t> sizes(batchRank, 1), viewSizes, viewStrides;
    int64_t own = static_cast<int64_t>(w.sizes.size()) - 2;
    for (int64_t d = 0; d < own; ++d) {
      int64_t size = w.strides[d] == 0 ? 1 : w.sizes[d];
      sizes[batchRank - own + d] = size;
      viewSizes.push_back(size);
      viewStrides.push_back(w.strides[d]);
    }
    for (size_t d = own; d < w.sizes.size(); ++d) {
      sizes.push_back(w.sizes[d]);
      viewSizes.push_back(w.sizes[d]);
      viewStrides.push_back(w.strides[d]);
    }
    return program_.packedOperand(w, viewSizes, viewStrides, sizes);
  }

  /// Weights [OC, C/g, KH, KW] (or [C, OC/g, KH, KW] when transposed) as [g, KH, KW, K, N].
  OperandAttr packedConv(const StridedView& w, int64_t groups, bool transposed) {
    int64_t k = transposed ? 0 : 1, n = 1 - k, grouped = 0;
    SmallVector<int64_t> sizes(w.sizes), perGroup(w.sizes);
    perGroup[grouped] /= groups;
    SmallVector<int64_t> viewSizes = {groups, w.sizes[2], w.sizes[3], perGroup[k], perGroup[n]};
    SmallVector<int64_t> viewStrides = {perGroup[grouped] * w.strides[grouped], w.strides[2], w.strides[3],
                                        w.strides[k], w.strides[n]};
    return program_.packedOperand(w, viewSizes, viewStrides, sizes);
  }

  /// The kernel and descriptor of a unit's TPC ops; `product` (the MME's result) is read from `ring`.
  sched::TpcOp tpcOp(Operation* unit, KernelPart& part, Value product, OperandAttr ring) {
    llvm::SetVector<Value> inputs;
    for (Operation* op : part.ops)
      for (Value operand : op->getOperands())
        if (!operand.getDefiningOp() || !llvm::is_contained(part.ops, operand.getDefiningOp())) inputs.insert(operand);
    part.inputs.assign(inputs.begin(), inputs.end());
    llvm::append_range(part.outputs, unit->getRegion(0).front().getTerminator()->getOperands());
    SmallVector<Attribute> in;
    for (Value input : part.inputs)
      in.push_back(input == product    ? Attribute(ring)
                   : input == updated_ ? program_.operand(unit->getResult(0))
                                       : program_.operand(outer(unit, input)));
    SmallVector<Value> results(unit->getResults());
    return describeTpc(unit, part, in, operands(results));
  }

  sched::TpcOp describeTpc(Operation* unit, const KernelPart& part, ArrayRef<Attribute> in, ArrayRef<Attribute> out) {
    FlatSymbolRefAttr kernel = program_.kernel(part, in, out, program_.symbol("kernel"));
    auto op = sched::TpcOp::create(builder_, unit->getLoc(), program_.symbol("tpc"), kernel.getValue(),
                                   builder_.getArrayAttr(in), builder_.getArrayAttr(out));
    name(op, unit);
    return op;
  }

  void name(Operation* descriptor, Operation* unit) {
    descriptor->setAttr("name", builder_.getStringAttr(unitName(unit)));
    SmallVector<Attribute> sources;
    for (const SourceName& source : unitSources(unit))
      sources.push_back(builder_.getStrArrayAttr({source.node, source.op}));
    descriptor->setAttr("sources", builder_.getArrayAttr(sources));
    if (options_.descriptorsOnly) descriptor->setAttr(kUnitAttr, builder_.getI64IntegerAttr(unit_));
  }

  // ---- Commands ------------------------------------------------------------------------------------

  void emitQueues(ArrayRef<recipe::Queue> queues) {
    for (const auto& [number, queue] : llvm::enumerate(queues)) {
      auto op = sched::QueueOp::create(builder_, function_.getLoc(), static_cast<sched::EngineName>(number));
      OpBuilder::InsertionGuard guard(builder_);
      builder_.setInsertionPointToEnd(&op.getBody().emplaceBlock());
      for (const recipe::Command& c : queue.commands) {
        SmallVector<int64_t> waits;
        for (const recipe::Wait& wait : c.waits) waits.append({wait.signal, wait.value});
        sched::RunOp::create(builder_, function_.getLoc(), symbols_[c.op], c.lo, c.hi, c.slice,
                             c.bundle == recipe::kNone ? -1 : static_cast<int64_t>(c.bundle),
                             waits.empty() ? DenseI64ArrayAttr() : builder_.getDenseI64ArrayAttr(waits), c.signal);
      }
    }
  }

  void summarise(ArrayRef<recipe::Queue> queues) {
    size_t waits = 0;
    for (const recipe::Queue& queue : queues)
      for (const recipe::Command& c : queue.commands) waits += c.waits.size();
    std::string text = llvm::formatv("{0} MME, {1} TPC, {2} DMA commands, {3} waits", queues[0].commands.size(),
                                     queues[1].commands.size(), queues[2].commands.size(), waits)
                           .str();
    if (options_.summary) *options_.summary = text;
    if (!options_.report) return;
    *options_.report += text + "\n";
    for (const recipe::Queue& queue : queues)
      for (const recipe::Command& c : queue.commands) {
        *options_.report += llvm::formatv("{0} {1} slice {2}", engineName(queue.engine), symbols_[c.op], c.slice).str();
        for (const recipe::Wait& wait : c.waits)
          *options_.report +=
              llvm::formatv(" after {0}:{1}", engineName(static_cast<Engine>(wait.signal)), wait.value).str();
        *options_.report += "\n";
      }
  }

  func::FuncOp function_;
  OpBuilder& builder_;
  const ScheduleOptions& options_;
  ProgramBuilder program_;
  std::vector<plan::IssueUnit> units_;
  std::vector<std::string> symbols_;  ///< Of the descriptors, by number.
  uint32_t bundles_ = 0;
  bool takesTurns_ = false;  ///< The next unit does, with the last one of units_.
  SmallVector<Attribute> chainMembers_;
  std::string chainName_;
  Value updated_;     ///< In the unit that is being described: data that lies where its result does.
  int64_t unit_ = 0;  ///< The one that is being described.
  /// kTileChoicesAttr, by index of units_ and part.
  llvm::DenseMap<std::pair<size_t, size_t>, ArrayAttr> choices_;
  /// By unit of the function: the first and the last of units_ that it has become; of none, the last before it.
  std::vector<int64_t> firstOfStep_, lastOfStep_;
};

class SchedulePass : public PassWrapper<SchedulePass, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SchedulePass)
  explicit SchedulePass(ScheduleOptions options) : options_(options) {}
  StringRef getArgument() const override { return "hpu-schedule"; }
  StringRef getDescription() const override { return "Turns units into engine queues"; }
  void getDependentDialects(DialectRegistry& registry) const override { registry.insert<sched::SchedDialect>(); }
  void runOnOperation() override {
    auto function = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!function) {
      getOperation().emitError("the module has no function @main to schedule");
      return signalPassFailure();
    }
    OpBuilder builder(function);
    function.setSymName("main.scheduled");
    Status status = Scheduler(function, builder, options_).run();
    function.erase();
    if (status.ok()) return;
    withCode(status.code(), getOperation().emitError()) << status.message();
    signalPassFailure();
  }

 private:
  ScheduleOptions options_;
};

class VerifySchedulePass : public PassWrapper<VerifySchedulePass, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifySchedulePass)
  StringRef getArgument() const override { return "hpu-verify-schedule"; }
  StringRef getDescription() const override { return "Checks queues and symbols of a program"; }
  void runOnOperation() override {
    auto program = getOperation().lookupSymbol<sched::ProgramOp>("main");
    if (!program || !getOperation().getOps<func::FuncOp>().empty()) {
      getOperation().emitError("expected one sched.program @main and no function after schedule");
      return signalPassFailure();
    }
    SymbolTable symbols(program);
    program.walk([&](sched::RunOp run) {
      Operation* op = symbols.lookup(run.getOp());
      auto engine = run->getParentOfType<sched::QueueOp>().getEngine();
      bool fits = (isa_and_nonnull<sched::MmeOp>(op) && engine == sched::EngineName::mme) ||
                  (isa_and_nonnull<sched::TpcOp>(op) && engine == sched::EngineName::tpc) ||
                  (isa_and_nonnull<sched::DmaOp>(op) && engine == sched::EngineName::dma);
      if (fits) return;
      run.emitOpError() << "'" << run.getOp() << "' is no descriptor of this queue's engine";
      signalPassFailure();
    });
  }
};

}  // namespace

std::unique_ptr<Pass> createSchedulePass(ScheduleOptions options) {
  return std::make_unique<SchedulePass>(options);
}
std::unique_ptr<Pass> createVerifySchedulePass() {
  return std::make_unique<VerifySchedulePass>();
}

}  // namespace hpu::schedule
