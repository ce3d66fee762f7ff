// SPDX-License-Identifier: Apache-2.0
#include "compiler/emit/Dynamic.h"

#include <map>

#include "base/Format.h"
#include "base/OptionNames.h"
#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/EqualSizes.h"
#include "compiler/import/ValueSizes.h"
#include "compiler/memory/Memory.h"
#include "compiler/schedule/Schedule.h"
#include "shape/SymInt.h"

using namespace mlir;

namespace hpu::emit {
namespace {

using base::strCat;
using recipe::Patch;
using recipe::SizeExpr;
using shape::DimExpr;
using shape::SymInt;

/// Makes nodes of expressions, each once.
class ExprTable {
 public:
  explicit ExprTable(recipe::Dynamic& dynamic) : dynamic_(dynamic) {
    for (size_t s = 0; s < dynamic.symbols.size(); ++s) symbols_[dynamic.symbols[s].name] = static_cast<int64_t>(s);
  }

  uint32_t constant(int64_t number) { return add({SizeExpr::Kind::kConstant, number, {}}); }

  /// False: some expression was of no dimensions of the recipe.
  bool isComplete() const { return isComplete_; }

  uint32_t of(const DimExpr& expr) {
    std::vector<uint32_t> sum;
    for (const DimExpr::Term& term : expr.terms()) {
      std::vector<uint32_t> factors;
      if (term.coefficient != 1 || term.factors.empty()) factors.push_back(constant(term.coefficient));
      for (const DimExpr::Part& part : term.factors) factors.push_back(ofPart(part));
      sum.push_back(joined(SizeExpr::Kind::kProduct, std::move(factors)));
    }
    return sum.empty() ? constant(0) : joined(SizeExpr::Kind::kSum, std::move(sum));
  }

 private:
  uint32_t joined(SizeExpr::Kind kind, std::vector<uint32_t> args) {
    return args.size() == 1 ? args[0] : add({kind, 0, std::move(args)});
  }

  uint32_t ofPart(const DimExpr::Part& part) {
    using Part = DimExpr::Part::Kind;
    if (part.kind == Part::kSymbol) {
      const auto known = symbols_.find(part.name);
      // What no expression says has a name that is no dimension's.
      isComplete_ &= known != symbols_.end();
      return known == symbols_.end() ? constant(0) : add({SizeExpr::Kind::kSymbol, known->second, {}});
    }
    std::vector<uint32_t> args;
    for (const DimExpr& arg : part.args) args.push_back(of(arg));
    // Never destroyed: compilations may go on while the process exits.
    static const auto& kinds = *new std::map<Part, SizeExpr::Kind>{{Part::kQuotient, SizeExpr::Kind::kFloorDiv},
                                                                   {Part::kMax, SizeExpr::Kind::kMax},
                                                                   {Part::kMin, SizeExpr::Kind::kMin},
                                                                   {Part::kSelectEqual, SizeExpr::Kind::kSelectEqual},
                                                                   {Part::kSelectLess, SizeExpr::Kind::kSelectLess}};
    return add({kinds.at(part.kind), 0, std::move(args)});
  }

  uint32_t add(SizeExpr expr) {
    auto [found, fresh] = known_.try_emplace({static_cast<int>(expr.kind), expr.number, expr.args},
                                             static_cast<uint32_t>(dynamic_.exprs.size()));
    if (fresh) dynamic_.exprs.push_back(std::move(expr));
    return found->second;
  }

  recipe::Dynamic& dynamic_;
  std::map<std::string, int64_t> symbols_;
  bool isComplete_ = true;
  std::map<std::tuple<int, int64_t, std::vector<uint32_t>>, uint32_t> known_;
};

class Builder {
 public:
  Builder(const DynamicSource& source, const recipe::Program& emitted)
      : source_(source), emitted_(emitted), program_(source.program), made_(std::make_shared<recipe::Dynamic>()) {}

  StatusOr<std::shared_ptr<recipe::Dynamic>> build() {
    HPU_RETURN_IF_ERROR(addSymbols());
    addValues();
    ExprTable table(*made_);
    exprs_ = &table;
    for (const importer::SizeGuard& guard : source_.guards)
      made_->guards.push_back({guard.isEqual ? recipe::Guard::Relation::kEqual : recipe::Guard::Relation::kLessEqual,
                               table.of(guard.left), table.of(guard.right), guard.text});
    addTensors();
    addStorages();
    HPU_RETURN_IF_ERROR(addOps());
    addUnits();
    HPU_RETURN_IF_ERROR(addKernels());
    if (!table.isComplete())
      return unimplemented(
          "a size of the program follows from its free dimensions in more terms than an expression has; give sizes to "
          "some of them (" +
          base::optionName("dims") + ")");
    made_->reorder = source_.reorder;
    return made_;
  }

 private:
  Status addSymbols() {
    auto module = program_->getParentOfType<ModuleOp>();
    auto samples = module->getAttrOfType<DictionaryAttr>(ir::kSamplesAttr);
    const shape::SymbolBounds bounds = ir::sizeBounds(module);
    for (NamedAttribute each : samples) {
      const shape::Interval own = bounds.at(each.getName().str());
      made_->symbols.push_back({each.getName().str(), own.low, own.high, cast<IntegerAttr>(each.getValue()).getInt()});
    }
    if (made_->symbols.size() <= recipe::kMaxSymbols) return okStatus();
    return resourceExhausted(strCat("a recipe has at most ", recipe::kMaxSymbols,
                                    " dimensions that are given late, and this one would have ", made_->symbols.size(),
                                    "; give sizes to some"));
  }

  void addValues() {
    for (const importer::ValueSize& size : importer::valueSizes(program_->getParentOfType<ModuleOp>()))
      for (uint32_t i = 0; i < emitted_.inputs.size(); ++i)
        for (uint32_t s = 0; s < made_->symbols.size(); ++s)
          if (emitted_.inputs[i].name == size.input && made_->symbols[s].name == size.symbol)
            made_->values.push_back({i, size.element, s});
    llvm::sort(made_->values, [](const recipe::InputValue& a, const recipe::InputValue& b) {
      return std::pair(a.input, a.element) < std::pair(b.input, b.element);
    });
  }

  /// A text of an attribute; nothing when it is of a number.
  std::optional<uint32_t> named(mlir::Attribute text) {
    auto name = dyn_cast<StringAttr>(text);
    if (!name || name.empty()) return std::nullopt;
    const DimExpr expr = DimExpr::parse(name.getValue());
    return expr.isConstant() ? std::nullopt : std::optional(exprs_->of(expr));
  }
  uint32_t number(StringAttr text) { return exprs_->of(DimExpr::parse(text.getValue())); }

  void addTensors() {
    uint32_t inputs = 0, outputs = 0;
    for (auto section : program_.getBody().getOps<sched::SectionOp>()) {
      if (!section.getType()) continue;
      const bool isInput = section.getKind() == sched::SectionKind::input;
      const uint32_t index = isInput ? inputs++ : outputs++;
      const ir::SymShape shape = ir::symShape(cast<RankedTensorType>(*section.getType()));
      const ArrayAttr declared =
          isInput ? importer::declaredSizes(program_->getParentOfType<ModuleOp>(), emitted_.inputs[index].name)
                  : ArrayAttr();
      for (size_t d = 0; declared && d < shape.size(); ++d)
        if (const std::optional<uint32_t> expr = named(declared[d]))
          made_->patches.push_back({Patch::Field::kInputSize, index, 0, static_cast<uint32_t>(d), *expr});
      for (size_t d = 0; !declared && d < shape.size(); ++d)
        if (shape[d].isNamed())
          made_->patches.push_back({isInput ? Patch::Field::kInputSize : Patch::Field::kOutputSize, index, 0,
                                    static_cast<uint32_t>(d), exprs_->of(*ir::exprOf(shape[d]))});
    }
  }

  void addStorages() {
    auto storages = program_->getAttrOfType<ArrayAttr>(memory::kStoragesAttr);
    for (mlir::Attribute each : storages ? storages.getValue() : ArrayRef<mlir::Attribute>()) {
      auto storage = cast<DictionaryAttr>(each);
      auto value = [&](const char* name) { return storage.getAs<IntegerAttr>(name).getInt(); };
      const int64_t output = value("output");
      made_->storages.push_back(
          {number(storage.getAs<StringAttr>("bytes")), static_cast<uint32_t>(value("begin")),
           static_cast<uint32_t>(value("end")),
           output < 0 ? recipe::kNone : static_cast<uint32_t>(emitted_.inputs.size() + static_cast<size_t>(output))});
    }
  }

  // ---- Ops -------------------------------------------------------------------------------------------

  Status addOps() {
    uint32_t index = 0;
    for (Operation& op : program_.getBody().front()) {
      SmallVector<sched::OperandAttr> operands;
      auto append = [&](ArrayAttr all) {
        for (mlir::Attribute each : all) operands.push_back(cast<sched::OperandAttr>(each));
      };
      sched::OperandAttr space;
      if (auto mme = dyn_cast<sched::MmeOp>(op)) {
        operands = {mme.getA(), mme.getB(), mme.getC()};
        space = mme.getC();
      } else if (auto tpc = dyn_cast<sched::TpcOp>(op)) {
        append(tpc.getInputs());
        append(tpc.getOutputs());
        space = cast<sched::OperandAttr>(tpc.getOutputs()[0]);
      } else if (auto dma = dyn_cast<sched::DmaOp>(op)) {
        operands = {dma.getSrc(), dma.getDst()};
        space = dma.getDst();
      } else {
        continue;
      }
      if (space.getLate()) addSizes(Patch::Field::kSpace, index, 0, space.getLate().getAs<ArrayAttr>("sizes"));
      for (auto [o, operand] : llvm::enumerate(operands))
        if (operand.getLate()) HPU_RETURN_IF_ERROR(addOperand(index, static_cast<uint32_t>(o), operand));
      ++index;
    }
    return okStatus();
  }

  void addSizes(Patch::Field field, uint32_t op, uint32_t operand, ArrayAttr names) {
    for (auto [d, name] : llvm::enumerate(names))
      if (const std::optional<uint32_t> expr = named(name))
        made_->patches.push_back({field, op, operand, static_cast<uint32_t>(d), *expr});
  }

  Status addOperand(uint32_t op, uint32_t operand, sched::OperandAttr attribute) {
    DictionaryAttr late = attribute.getLate();
    for (llvm::StringRef field : {"sizes", "strides"})
      for (mlir::Attribute each : late.getAs<ArrayAttr>(field))
        if (cast<StringAttr>(each).getValue() == ir::kNoExpression)
          return unimplemented(strCat("'", emitted_.ops[op].name,
                                      "' has a size or stride whose expression is too long for sizes that are given "
                                      "late"));
    addSizes(Patch::Field::kOperandSize, op, operand, late.getAs<ArrayAttr>("sizes"));
    if (late.contains("order") || late.contains(schedule::kLateChain)) {
      tileUsers_[op].push_back({operand, attribute});
      return okStatus();  // Strides are those of the tile.
    }
    addSizes(Patch::Field::kOperandStride, op, operand, late.getAs<ArrayAttr>("strides"));
    auto offset = late.getAs<StringAttr>("offset");
    if (auto storage = late.getAs<IntegerAttr>("storage"))
      made_->placements.push_back({op, operand, static_cast<uint32_t>(storage.getInt()), number(offset)});
    else if (const std::optional<uint32_t> expr = named(offset))
      made_->patches.push_back({Patch::Field::kOperandOffset, op, operand, 0, *expr});
    return okStatus();
  }

  // ---- Units -----------------------------------------------------------------------------------------

  void addUnits() {
    addChoices();
    for (mlir::Attribute each : program_->getAttrOfType<ArrayAttr>(schedule::kUnitsAttr)) {
      auto unit = cast<DictionaryAttr>(each);
      const auto number = static_cast<uint32_t>(made_->units.size());
      const int64_t bundle = unit.getAs<IntegerAttr>("bundle").getInt();
      recipe::DynamicUnit& made = made_->units.emplace_back(
          recipe::DynamicUnit{{}, bundle < 0 ? recipe::kNone : static_cast<uint32_t>(bundle)});
      for (recipe::TileChoice& choice : made_->choices) choice.slices.emplace_back();
      const auto parts = unit.getAs<ArrayAttr>("parts");
      bool linked = false;
      for (auto [p, own] : llvm::enumerate(parts)) {
        auto part = cast<DictionaryAttr>(own);
        std::vector<uint32_t>& ops = made.parts.emplace_back().ops;
        for (int64_t op : part.getAs<DenseI64ArrayAttr>("ops").asArrayRef()) ops.push_back(static_cast<uint32_t>(op));
        const std::optional<uint32_t> cut = addTiles(number, static_cast<uint32_t>(p), ops, linked);
        addSlices(part, ops[0], cut);
      }
      for (recipe::TileChoice& choice : made_->choices)
        if (parts.size() > 1 && !readsSlices(made, choice.slices.back())) uncut(choice);
      fresh_ = !linked;
    }
  }

  /// How the sizes that were tried would cut a part; `cut`: the one dimension along which its tiles in SRAM are.
  void addSlices(DictionaryAttr part, uint32_t op, std::optional<uint32_t> cut) {
    const ArrayRef<int64_t> tile = part.getAs<DenseI64ArrayAttr>("tile").asArrayRef();
    const std::vector<int64_t>& space = emitted_.ops[op].space;
    std::vector<uint32_t> slices;
    for (size_t d = 0; d < tile.size(); ++d)
      slices.push_back(static_cast<uint32_t>((space[d] + tile[d] - 1) / std::max<int64_t>(tile[d], 1)));
    auto choices = part.getAs<ArrayAttr>("choices");
    for (size_t c = 0; c < made_->choices.size(); ++c) {
      std::vector<uint32_t> own = slices;
      if (choices && c < choices.size()) {
        const ArrayRef<int64_t> other = cast<DenseI64ArrayAttr>(choices[c]).asArrayRef();
        // Where all sizes are served, slices are the tiles.
        const bool isLast = c + 1 == made_->choices.size();
        const bool fits = !isLast || !cut || llvm::all_of(llvm::enumerate(other), [&](auto at) {
          return at.value() == 1 || at.index() == *cut;
        });
        if (fits) own.assign(other.begin(), other.end());
      }
      made_->choices[c].slices.back().push_back(std::move(own));
    }
  }

  /// The last unit runs as a whole.
  static void uncut(recipe::TileChoice& choice) {
    for (std::vector<uint32_t>& part : choice.slices.back()) part.clear();
  }

  /// Whether kernels of the last unit read what takes turns with them point by point along these slices, for all sizes,
  /// and along other dimensions as well or whole.
  bool readsSlices(const recipe::DynamicUnit& unit, const std::vector<std::vector<uint32_t>>& slices) const {
    for (auto [part, cuts] : llvm::zip(unit.parts, slices)) {
      const auto cut = llvm::find_if(cuts, [](uint32_t count) { return count > 1; });
      const auto dim = cut == cuts.end() ? recipe::kNone : static_cast<uint32_t>(cut - cuts.begin());
      for (uint32_t index : part.ops) {
        const recipe::Op& op = emitted_.ops[index];
        if (op.engine != Engine::kTpc) continue;
        if (dim != recipe::kNone && (emitted_.kernels[op.tpc.kernel].wholeDims >> dim & 1)) return false;
        if (!chainUsers_.contains(index)) continue;
        const kernels::SymInputReads& reads = source_.kernels[op.tpc.kernel].reads;
        for (const auto& [operand, turned] : chainUsers_.at(index)) {
          if (operand >= op.tpc.inputs.size() || turned == recipe::kNone) continue;
          // What TPC ops read of a chain has the sizes of their index space.
          const uint32_t along = dim == recipe::kNone ? turned : dim;
          const auto& names = tileSizes_.at({index, operand});
          for (size_t d = 0; d < op.tpc.inputs[operand].sizes.size(); ++d) {
            const bool whole = d != along && (emitted_.kernels[op.tpc.kernel].wholeDims >> d & 1);
            const kernels::SymDimRead* read =
                operand < reads.size() && d < reads[operand].size() ? &reads[operand][d] : nullptr;
            const bool own =
                read && read->dim == static_cast<int>(d) && read->scale == 1 && read->low == 0 && read->high == 0;
            const bool one = op.tpc.inputs[operand].sizes[d] == 1 && !names[d];
            if (!whole && !own && !one) return false;
          }
        }
      }
    }
    return true;
  }

  /// Each is for all sizes up to those that it was made for, and the last one for all.
  void addChoices() {
    auto module = program_->getParentOfType<ModuleOp>();
    auto choices = module->getAttrOfType<ArrayAttr>(schedule::kChoicesAttr);
    made_->choices.resize(choices ? std::max<size_t>(choices.size(), 1) : 1);
    for (auto [c, choice] : llvm::enumerate(made_->choices))
      for (const recipe::Symbol& symbol : made_->symbols) {
        choice.min.push_back(symbol.min);
        const bool isLast = c + 1 == made_->choices.size();
        choice.max.push_back(isLast ? symbol.max
                                    : cast<DictionaryAttr>(choices[c]).getAs<IntegerAttr>(symbol.name).getInt());
      }
  }

  /// The tiles in SRAM that a part fills: those of a bundle's product, and those of what it hands on to another part or
  /// unit. Returns the dimension along which some of them are cut; sets whether it hands something on.
  std::optional<uint32_t> addTiles(uint32_t unit, uint32_t part, const std::vector<uint32_t>& ops, bool& linked) {
    std::optional<uint32_t> cut;
    std::optional<size_t> product;
    linked = false;
    for (uint32_t op : ops)
      for (const auto& [operand, attribute] : tileUsers_[op]) {
        DictionaryAttr late = attribute.getLate();
        auto chain = late.getAs<DictionaryAttr>(schedule::kLateChain);
        std::vector<uint32_t> dims;
        for (uint32_t d = 0; d < attribute.getSizes().size(); ++d) dims.push_back(d);
        if (!chain) {
          const ArrayRef<int64_t> order = late.getAs<DenseI64ArrayAttr>("order").asArrayRef();
          if (!product) {
            product = newTile(unit, part, attribute);
            recipe::TileStorage& tile = made_->tiles[*product];
            tile.order.assign(order.begin(), order.end());
            tile.dim = order.empty() ? 0 : static_cast<uint32_t>(order.front());
            constexpr uint32_t kSlots = 2;  // One is written while the other one is read.
            tile.slots = kSlots;
            cut = tile.dim;
          }
          made_->tiles[*product].users.push_back({op, operand, std::move(dims)});
          continue;
        }
        auto value = [&](const char* name) { return chain.getAs<IntegerAttr>(name).getInt(); };
        auto [known, fresh] = chainTiles_.try_emplace(value("number"), made_->tiles.size());
        if (fresh) {
          // Its producer comes first.
          newTile(unit, part, attribute);
          recipe::TileStorage& tile = made_->tiles.back();
          // The users' strides say how it lies; slices are apart from each other.
          tile.dim = static_cast<uint32_t>(value("dim"));
          tile.order = {tile.dim};
          for (uint32_t d : dims)
            if (d != tile.dim) tile.order.push_back(d);
          tile.slots = static_cast<uint32_t>(value("slots"));
          linked = true;
          if (tile.slots > 1) cut = tile.dim;
        }
        recipe::TileStorage& tile = made_->tiles[known->second];
        recipe::TileStorage::User& user = tile.users.emplace_back(recipe::TileStorage::User{op, operand, {}});
        user.dims.assign(dims.size(), recipe::kNone);
        const auto along = late.getAs<IntegerAttr>(schedule::kLateAlong);
        if (along) user.dims[static_cast<size_t>(along.getInt())] = tile.dim;
        chainUsers_[op].push_back({operand, along ? static_cast<uint32_t>(along.getInt()) : recipe::kNone});
        std::vector<bool>& names = tileSizes_[{op, operand}];
        for (auto [d, stride] : llvm::enumerate(attribute.getStrides())) {
          user.strides.push_back(named(late.getAs<ArrayAttr>("strides")[d]).value_or(exprs_->constant(stride)));
          names.push_back(named(late.getAs<ArrayAttr>("sizes")[d]).has_value());
        }
        // A single element has no strides: it is the first one, or the verifier sees it.
        const auto offset = late.getAs<StringAttr>("offset");
        if (!user.strides.empty() || offset.getValue() != "0") user.offset = number(offset);
      }
    return cut;
  }

  /// Tiles of the result that `attribute` shows, in the next place in the order of bundles; units that hand on results
  /// share their reader's.
  size_t newTile(uint32_t unit, uint32_t part, sched::OperandAttr attribute) {
    if (fresh_) ++places_;
    fresh_ = false;
    recipe::TileStorage& tile = made_->tiles.emplace_back();
    tile.unit = unit;
    tile.part = part;
    tile.elementBytes = static_cast<uint32_t>(elementSize(ir::elementType(attribute.getElement())));
    for (auto [size, name] : llvm::zip(attribute.getSizes(), attribute.getLate().getAs<ArrayAttr>("sizes")))
      tile.sizes.push_back(named(name).value_or(exprs_->constant(size)));
    tile.begin = places_ - 1;
    tile.end = std::min<uint32_t>(places_, static_cast<uint32_t>(unitCount()));
    return made_->tiles.size() - 1;
  }
  size_t unitCount() const { return program_->getAttrOfType<ArrayAttr>(schedule::kUnitsAttr).size(); }

  // ---- Kernels ---------------------------------------------------------------------------------------

  StatusOr<uint32_t> expr(const SymInt& number, size_t kernel) {
    if (const std::optional<DimExpr> known = number.expr()) return exprs_->of(*known);
    return unimplemented(strCat("kernel '", emitted_.kernels[kernel].name,
                                "' needs a number whose expression is too long for sizes that are given late"));
  }

  Status addKernels() {
    for (size_t k = 0; k < emitted_.kernels.size(); ++k) {
      const recipe::Kernel& kernel = emitted_.kernels[k];
      recipe::DynamicKernel& made = made_->kernels.emplace_back();
      made.scratchBytes = exprs_->constant(static_cast<int64_t>(kernel.scratchBytes));
      made.reads.resize(kernel.numInputs);
      const kernels::SymbolicFacts& facts = source_.kernels[k];
      for (const SymInt& dim : facts.dims) {
        HPU_ASSIGN(made.dims.emplace_back(), expr(dim, k));
      }
      for (const kernels::CostTerm& term : facts.cost) {
        recipe::DynamicKernel::CostTerm& cost = made.cost.emplace_back();
        cost.loads = term.slots.loads;
        cost.stores = term.slots.stores;
        cost.vectorOps = term.slots.vectorOps;
        cost.scalarOps = term.slots.scalarOps;
        for (const SymInt& trips : term.trips) {
          HPU_ASSIGN(cost.trips.emplace_back(), expr(trips, k));
        }
      }
      for (size_t i = 0; i < facts.reads.size() && i < made.reads.size(); ++i)
        for (const kernels::SymDimRead& read : facts.reads[i]) {
          recipe::DynamicKernel::Read own;
          if (read.dim >= 0) {
            own.dim = read.dim;
            HPU_ASSIGN(own.scale, expr(read.scale, k));
            HPU_ASSIGN(own.low, expr(read.low, k));
            HPU_ASSIGN(own.high, expr(read.high, k));
          }
          made.reads[i].push_back(own);
        }
    }
    return okStatus();
  }

  const DynamicSource& source_;
  const recipe::Program& emitted_;
  sched::ProgramOp program_;
  std::shared_ptr<recipe::Dynamic> made_;
  ExprTable* exprs_ = nullptr;
  /// By op: operands in SRAM.
  std::map<uint32_t, std::vector<std::pair<uint32_t, sched::OperandAttr>>> tileUsers_;
  /// By op: operands that are results of chained units, and the dimension of each that follows the slices.
  std::map<uint32_t, std::vector<std::pair<uint32_t, uint32_t>>> chainUsers_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<bool>> tileSizes_;  ///< By op and operand of these: named sizes.
  std::map<int64_t, size_t> chainTiles_;                                  ///< By number of a chained unit.
  uint32_t places_ = 0;
  bool fresh_ = true;  ///< The next tiles are of a new place.
};

}  // namespace

StatusOr<std::shared_ptr<recipe::Dynamic>> dynamicOf(const DynamicSource& source, const recipe::Program& emitted) {
  return Builder(source, emitted).build();
}

}  // namespace hpu::emit
