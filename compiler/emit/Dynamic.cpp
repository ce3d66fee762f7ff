// SPDX-License-Identifier: Apache-2.0
#include "compiler/emit/Dynamic.h"

#include <map>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/HpuTypes.h"
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
    if (part.kind == Part::kSymbol) return add({SizeExpr::Kind::kSymbol, symbols_.at(part.name), {}});
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
  std::map<std::tuple<int, int64_t, std::vector<uint32_t>>, uint32_t> known_;
};

class Builder {
 public:
  Builder(const DynamicSource& source, const recipe::Program& emitted)
      : source_(source), emitted_(emitted), program_(source.program), made_(std::make_shared<recipe::Dynamic>()) {}

  StatusOr<std::shared_ptr<recipe::Dynamic>> build() {
    HPU_RETURN_IF_ERROR(addSymbols());
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
      for (size_t d = 0; d < shape.size(); ++d)
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
    auto order = late.getAs<DenseI64ArrayAttr>("order");
    if (order) {
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
    const size_t others = addChoices();
    recipe::TileChoice all;
    for (const recipe::Symbol& symbol : made_->symbols) {
      all.min.push_back(symbol.min);
      all.max.push_back(symbol.max);
    }
    made_->choices.push_back(std::move(all));
    uint32_t place = 0;
    for (mlir::Attribute each : program_->getAttrOfType<ArrayAttr>(schedule::kUnitsAttr)) {
      auto unit = cast<DictionaryAttr>(each);
      const auto number = static_cast<uint32_t>(made_->units.size());
      recipe::DynamicUnit::Part part;
      for (int64_t op : unit.getAs<DenseI64ArrayAttr>("ops").asArrayRef())
        part.ops.push_back(static_cast<uint32_t>(op));
      const int64_t bundle = unit.getAs<IntegerAttr>("bundle").getInt();
      const ArrayRef<int64_t> tile = unit.getAs<DenseI64ArrayAttr>("tile").asArrayRef();
      const std::vector<int64_t>& space = emitted_.ops[part.ops[0]].space;
      std::vector<uint32_t> slices;
      for (size_t d = 0; d < tile.size(); ++d)
        slices.push_back(static_cast<uint32_t>((space[d] + tile[d] - 1) / std::max<int64_t>(tile[d], 1)));
      const bool hasTile = addTile(number, part.ops, place);
      place += hasTile;
      auto choices = unit.getAs<ArrayAttr>("choices");
      for (size_t c = 0; c < others; ++c) {
        std::vector<uint32_t> own = slices;
        if (choices && c < choices.size()) {
          const ArrayRef<int64_t> other = cast<DenseI64ArrayAttr>(choices[c]).asArrayRef();
          // Tiles in SRAM are cut along one dimension, whatever the sizes.
          const bool fits = !hasTile || llvm::all_of(llvm::enumerate(other), [&](auto at) {
            return at.value() == 1 || at.index() == made_->tiles.back().dim;
          });
          if (fits) own.assign(other.begin(), other.end());
        }
        made_->choices[c].slices.push_back({std::move(own)});
      }
      made_->choices.back().slices.push_back({std::move(slices)});
      made_->units.push_back({{std::move(part)}, bundle < 0 ? recipe::kNone : static_cast<uint32_t>(bundle)});
    }
  }

  /// Those of smaller sizes: of all sizes up to them.
  size_t addChoices() {
    auto module = program_->getParentOfType<ModuleOp>();
    auto choices = module->getAttrOfType<ArrayAttr>(schedule::kChoicesAttr);
    for (mlir::Attribute each : choices ? choices.getValue() : ArrayRef<mlir::Attribute>()) {
      recipe::TileChoice choice;
      for (const recipe::Symbol& symbol : made_->symbols) {
        choice.min.push_back(symbol.min);
        choice.max.push_back(cast<DictionaryAttr>(each).getAs<IntegerAttr>(symbol.name).getInt());
      }
      made_->choices.push_back(std::move(choice));
    }
    return made_->choices.size();
  }

  /// The tiles in SRAM of a unit's product, if it has some.
  bool addTile(uint32_t unit, const std::vector<uint32_t>& ops, uint32_t place) {
    recipe::TileStorage tile;
    for (uint32_t op : ops)
      for (const auto& [operand, attribute] : tileUsers_[op]) {
        const ArrayRef<int64_t> order = attribute.getLate().getAs<DenseI64ArrayAttr>("order").asArrayRef();
        if (tile.users.empty()) {
          tile.unit = unit;
          tile.elementBytes = static_cast<uint32_t>(elementSize(ir::elementType(attribute.getElement())));
          for (auto [size, name] : llvm::zip(attribute.getSizes(), attribute.getLate().getAs<ArrayAttr>("sizes")))
            tile.sizes.push_back(named(name).value_or(exprs_->constant(size)));
          tile.order.assign(order.begin(), order.end());
          tile.dim = order.empty() ? 0 : static_cast<uint32_t>(order.front());
          constexpr uint32_t kSlots = 2;  // One is written while the other one is read.
          tile.slots = kSlots;
          tile.begin = place;
          tile.end = std::min<uint32_t>(place + 1, static_cast<uint32_t>(unitCount()));
        }
        recipe::TileStorage::User user{op, operand, {}};
        for (size_t d = 0; d < order.size(); ++d) user.dims.push_back(static_cast<uint32_t>(d));
        tile.users.push_back(std::move(user));
      }
    if (tile.users.empty()) return false;
    made_->tiles.push_back(std::move(tile));
    return true;
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
};

}  // namespace

StatusOr<std::shared_ptr<recipe::Dynamic>> dynamicOf(const DynamicSource& source, const recipe::Program& emitted) {
  return Builder(source, emitted).build();
}

}  // namespace hpu::emit
