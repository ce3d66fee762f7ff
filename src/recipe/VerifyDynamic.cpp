// SPDX-License-Identifier: Apache-2.0
// What a program of free dimensions has beside its descriptors: in range, and at the samples the same as these.
#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "recipe/CommandAccess.h"
#include "recipe/SizeValues.h"
#include "recipe/VerifierParts.h"

namespace hpu::recipe {

using base::strCat;

namespace {

/// Who says where an operand lies.
enum class Place : uint8_t { kOwn, kPatch, kStorage, kTile };

class DynamicVerifier {
 public:
  DynamicVerifier(const Program& program, const Dynamic& dynamic) : program_(program), dynamic_(dynamic) {}

  Status run() {
    HPU_RETURN_IF_ERROR(verifySymbols());
    HPU_RETURN_IF_ERROR(verifyExprs());
    HPU_RETURN_IF_ERROR(verifyValues());
    HPU_RETURN_IF_ERROR(verifyGuards());
    HPU_RETURN_IF_ERROR(verifyUnits());
    HPU_RETURN_IF_ERROR(verifySections());
    HPU_RETURN_IF_ERROR(verifyPatches());
    HPU_RETURN_IF_ERROR(verifyStorages());
    for (uint32_t t = 0; t < dynamic_.tiles.size(); ++t) HPU_RETURN_IF_ERROR(verifyTile(t));
    HPU_RETURN_IF_ERROR(verifyPlaces());
    HPU_RETURN_IF_ERROR(verifyChoices());
    HPU_RETURN_IF_ERROR(verifyKernelSizes());
    return verifySamples();
  }

 private:
  Status tooMany(std::string_view what, size_t count, size_t most) {
    return dataLoss(strCat("the program has ", count, " ", what, ", more than ", most));
  }

  // ---- Sizes -----------------------------------------------------------------------------------------

  Status verifySymbols() {
    const std::vector<Symbol>& symbols = dynamic_.symbols;
    if (symbols.size() > kMaxSymbols) return tooMany("free dimensions", symbols.size(), kMaxSymbols);
    for (size_t i = 0; i < symbols.size(); ++i) {
      const Symbol& symbol = symbols[i];
      if (symbol.min < 0 || symbol.min > symbol.sample || symbol.sample > symbol.max || symbol.max > kMaxPoints)
        return dataLoss(strCat("free dimension ", i, " '", symbol.name, "' has the sizes ", symbol.min, " to ",
                               symbol.max, " and the representative ", symbol.sample,
                               ", which are not in order or not in 0..2^48"));
      for (size_t j = 0; j < i; ++j)
        if (symbols[j].name == symbol.name)
          return dataLoss(strCat("free dimensions ", j, " and ", i, " are both named '", symbol.name, "'"));
    }
    return okStatus();
  }

  Status verifyExprs() {
    using Kind = SizeExpr::Kind;
    const std::vector<SizeExpr>& exprs = dynamic_.exprs;
    if (exprs.size() > kMaxSizeExprs) return tooMany("expressions of sizes", exprs.size(), kMaxSizeExprs);
    for (size_t i = 0; i < exprs.size(); ++i) {
      const SizeExpr& expr = exprs[i];
      if (expr.kind > Kind::kSelectLess)
        return dataLoss(strCat("size expression ", i, " has the unknown kind ", expr.kind));
      if (expr.kind == Kind::kSymbol &&
          (expr.number < 0 || expr.number >= static_cast<int64_t>(dynamic_.symbols.size())))
        return dataLoss(strCat("size expression ", i, " is free dimension ", expr.number, ", but the program has ",
                               dynamic_.symbols.size()));
      const bool leaf = expr.kind == Kind::kConstant || expr.kind == Kind::kSymbol;
      const bool select = expr.kind == Kind::kSelectEqual || expr.kind == Kind::kSelectLess;
      const size_t least = leaf ? 0 : select ? 4 : 2;
      const size_t most = leaf || select || expr.kind == Kind::kFloorDiv ? least : kMaxExprArgs;
      if (expr.args.size() < least || expr.args.size() > most)
        return dataLoss(strCat("size expression ", i, " of kind ", expr.kind, " has ", expr.args.size(), " arguments"));
      for (uint32_t arg : expr.args)
        if (arg >= i)
          return dataLoss(strCat("size expression ", i, " has the argument ", arg, ", which is not before it"));
    }
    return okStatus();
  }

  Status checkExpr(uint32_t expr, const std::string& where) {
    if (expr < dynamic_.exprs.size()) return okStatus();
    return dataLoss(strCat(where, " is size expression ", expr, ", but the program has ", dynamic_.exprs.size()));
  }

  Status verifyValues() {
    const std::vector<InputValue>& values = dynamic_.values;
    if (values.size() > kMaxSymbols) return tooMany("free dimensions that are values", values.size(), kMaxSymbols);
    for (size_t i = 0; i < values.size(); ++i) {
      const InputValue& value = values[i];
      const std::string where = strCat("input value ", i);
      if (value.input >= program_.inputs.size() || value.symbol >= dynamic_.symbols.size())
        return dataLoss(strCat(where, " is free dimension ", value.symbol, " of input ", value.input,
                               ", and the program has ", dynamic_.symbols.size(), " and ", program_.inputs.size()));
      const TensorType& type = program_.inputs[value.input].type;
      if (type.element != ElementType::kI64 && type.element != ElementType::kI32)
        return dataLoss(strCat(where, " is of input ", value.input, ", whose elements are no integers"));
      const bool isFirst = i == 0 || values[i - 1].input != value.input;
      const bool isLast = i + 1 == values.size() || values[i + 1].input != value.input;
      const bool inOrder = i == 0 || values[i - 1].input <= value.input;
      if (!inOrder || value.element != (isFirst ? 0 : values[i - 1].element + 1) ||
          (isLast && numElements(type.shape) != int64_t{value.element} + 1))
        return dataLoss(strCat(where, " is element ", value.element, " of input ", value.input, " of ", type.toString(),
                               "; an input has all of its elements, in order, or none"));
    }
    for (const Patch& patch : dynamic_.patches)
      if (patch.field == Patch::Field::kInputSize)
        for (const InputValue& value : values)
          if (value.input == patch.index)
            return dataLoss(strCat("input ", patch.index, " says sizes by its values, and has a free shape"));
    return okStatus();
  }

  Status verifyGuards() {
    for (size_t i = 0; i < dynamic_.guards.size(); ++i) {
      const Guard& guard = dynamic_.guards[i];
      const std::string where = strCat("guard ", i);
      if (guard.relation > Guard::Relation::kLessEqual)
        return dataLoss(strCat(where, " has the unknown relation ", guard.relation));
      HPU_RETURN_IF_ERROR(checkExpr(guard.left, where));
      HPU_RETURN_IF_ERROR(checkExpr(guard.right, where));
    }
    return okStatus();
  }

  // ---- Units -----------------------------------------------------------------------------------------

  Status verifyUnits() {
    unitOf_.assign(program_.ops.size(), {kNone, 0});
    std::vector<bool> seen(program_.bundles.size());
    std::vector<uint32_t> order;
    for (uint32_t u = 0; u < dynamic_.units.size(); ++u) {
      const DynamicUnit& unit = dynamic_.units[u];
      const std::string where = strCat("unit ", u);
      std::vector<uint32_t> ops;
      for (uint32_t p = 0; p < unit.parts.size(); ++p) {
        const DynamicUnit::Part& part = unit.parts[p];
        if (part.ops.empty()) return dataLoss(strCat(where, " has a part ", p, " without ops"));
        for (uint32_t op : part.ops) {
          if (op >= program_.ops.size() || unitOf_[op].first != kNone)
            return dataLoss(strCat(where, " runs op ", op, ", which is in two units or not one of the program's ",
                                   program_.ops.size()));
          if (program_.ops[op].space != program_.ops[part.ops[0]].space)
            return dataLoss(strCat(opText(program_, op), " and ", opText(program_, part.ops[0]), " are in one part of ",
                                   where, ", but have different index spaces"));
          unitOf_[op] = {u, p};
          ops.push_back(op);
        }
        const bool last = p + 1 == unit.parts.size();
        if (part.kept > 0 && (last || part.reader >= unit.parts[p + 1].ops.size()))
          return dataLoss(strCat(where, " keeps results of its part ", p, " for op ", part.reader,
                                 " of the part behind it, which there is not"));
      }
      if (ops.empty()) return dataLoss(where + " has no ops");
      order.insert(order.end(), ops.begin(), ops.end());
      if (unit.bundle == kNone) {
        if (ops.size() > 1) return dataLoss(strCat(where, " has ", ops.size(), " ops, but is no bundle"));
        continue;
      }
      if (unit.bundle >= program_.bundles.size() || seen[unit.bundle] || program_.bundles[unit.bundle].ops != ops)
        return dataLoss(
            strCat(where, " is bundle ", unit.bundle, ", which there is not, is another unit's too, or has other ops"));
      seen[unit.bundle] = true;
    }
    for (uint32_t op = 0; op < unitOf_.size(); ++op)
      if (unitOf_[op].first == kNone) return dataLoss(strCat(opText(program_, op), " is in no unit"));
    for (uint32_t b = 0; b < seen.size(); ++b)
      if (!seen[b]) return dataLoss(strCat("bundle ", b, " is no unit"));
    if (order != program_.hostOrder) return dataLoss("the units run the ops in another order than hostOrder");
    return okStatus();
  }

  // ---- Memory ----------------------------------------------------------------------------------------

  Status verifySections() {
    for (uint32_t s = 0; s < program_.sections.size(); ++s) {
      const SectionKind kind = program_.sections[s].kind;
      if (kind != SectionKind::kWorkspace && kind != SectionKind::kSram) continue;
      uint32_t& section = kind == SectionKind::kSram ? sram_ : workspace_;
      if (section != kNone)
        return dataLoss(strCat("sections ", section, " and ", s,
                               " are of one kind, of which a program of free dimensions has one"));
      section = s;
    }
    uint32_t next = 0;
    for (const Op& op : program_.ops) {
      firstOperand_.push_back(next);
      while (operandAt(op, next - firstOperand_.back())) ++next;
    }
    places_.resize(next, Place::kOwn);
    return okStatus();
  }

  /// The operand; an error when there is none.
  StatusOr<const Operand*> findOperand(uint32_t op, uint32_t operand, const std::string& where) {
    if (op >= program_.ops.size())
      return dataLoss(strCat(where, " is of op ", op, ", but the program has ", program_.ops.size()));
    const Operand* found = operandAt(program_.ops[op], operand);
    if (!found)
      return dataLoss(strCat(where, " is of operand ", operand, " of ", opText(program_, op), ", which has fewer"));
    return found;
  }

  Status place(uint32_t op, uint32_t operand, Place place) {
    Place& known = places_[firstOperand_[op] + operand];
    if (known != Place::kOwn)
      return dataLoss(strCat("the place of operand ", operand, " of ", opText(program_, op), " is said twice"));
    known = place;
    return okStatus();
  }

  Status verifyPatches() {
    using Field = Patch::Field;
    std::set<std::tuple<Field, uint32_t, uint32_t, uint32_t>> seen;
    for (size_t i = 0; i < dynamic_.patches.size(); ++i) {
      const Patch& patch = dynamic_.patches[i];
      const std::string where = strCat("patch ", i);
      HPU_RETURN_IF_ERROR(checkExpr(patch.expr, where));
      size_t rank = 0;
      switch (patch.field) {
        case Field::kInputSize:
        case Field::kOutputSize: {
          const auto& tensors = patch.field == Field::kInputSize ? program_.inputs : program_.outputs;
          if (patch.index >= tensors.size())
            return dataLoss(strCat(where, " is of tensor ", patch.index, ", but the program has ", tensors.size()));
          rank = tensors[patch.index].type.shape.size();
          break;
        }
        case Field::kSpace:
          if (patch.index >= program_.ops.size())
            return dataLoss(strCat(where, " is of op ", patch.index, ", but the program has ", program_.ops.size()));
          rank = program_.ops[patch.index].space.size();
          break;
        case Field::kOperandSize:
        case Field::kOperandStride: {
          HPU_ASSIGN(const Operand* operand, findOperand(patch.index, patch.operand, where));
          rank = patch.field == Field::kOperandSize ? operand->sizes.size() : operand->strides.size();
          const Op& op = program_.ops[patch.index];
          if (op.engine == Engine::kMme && op.mme.packing == BPacking::kBlocked && operand == &op.mme.b)
            return dataLoss(strCat(where, " is of operand b of ", opText(program_, patch.index),
                                   ", a packed constant, which has one size"));
          break;
        }
        case Field::kOperandOffset: {
          HPU_RETURN_IF_ERROR(findOperand(patch.index, patch.operand, where).status());
          HPU_RETURN_IF_ERROR(place(patch.index, patch.operand, Place::kPatch));
          rank = 1;
          break;
        }
        default:
          return dataLoss(strCat(where, " is of the unknown field ", patch.field));
      }
      if (patch.dim >= rank) return dataLoss(strCat(where, " is of dimension ", patch.dim, " of ", rank));
      if (!seen.emplace(patch.field, patch.index, patch.operand, patch.dim).second)
        return dataLoss(where + " is of a field that another one is of, too");
    }
    return okStatus();
  }

  Status verifyStorages() {
    const std::vector<Storage>& storages = dynamic_.storages;
    if (storages.size() > kMaxStorages) return tooMany("storages", storages.size(), kMaxStorages);
    for (size_t i = 0; i < storages.size(); ++i) {
      const Storage& storage = storages[i];
      const std::string where = strCat("storage ", i);
      HPU_RETURN_IF_ERROR(checkExpr(storage.bytes, where));
      // Nothing runs in a program all of whose outputs are empty.
      const size_t units = std::max<size_t>(dynamic_.units.size(), 1);
      if (storage.begin > storage.end || storage.end >= units)
        return dataLoss(
            strCat(where, " lives from unit ", storage.begin, " to ", storage.end, " of ", dynamic_.units.size()));
      if (storage.section == kNone) {
        if (workspace_ == kNone) return dataLoss(where + " is in the workspace, which the program has not");
        continue;
      }
      if (storage.section >= program_.sections.size() ||
          program_.sections[storage.section].kind != SectionKind::kOutput)
        return dataLoss(strCat(where, " is section ", storage.section, ", which is no output's"));
    }
    for (size_t i = 0; i < dynamic_.placements.size(); ++i) {
      const StoragePlacement& placement = dynamic_.placements[i];
      const std::string where = strCat("placement ", i);
      HPU_ASSIGN(const Operand* operand, findOperand(placement.op, placement.operand, where));
      if (placement.storage >= storages.size())
        return dataLoss(strCat(where, " is in storage ", placement.storage, " of ", storages.size()));
      HPU_RETURN_IF_ERROR(checkExpr(placement.offset, where));
      HPU_RETURN_IF_ERROR(place(placement.op, placement.operand, Place::kStorage));
      const Storage& storage = storages[placement.storage];
      const uint32_t section = storage.section == kNone ? workspace_ : storage.section;
      const uint32_t unit = unitOf_[placement.op].first;
      if (operand->section != section || unit < storage.begin || unit > storage.end)
        return dataLoss(strCat(where, " of ", opText(program_, placement.op), ", in unit ", unit, ", is in storage ",
                               placement.storage, ", which is another section or not in use then"));
    }
    return okStatus();
  }

  Status verifyTile(uint32_t index) {
    if (dynamic_.tiles.size() > kMaxTileStorages)
      return tooMany("results in SRAM", dynamic_.tiles.size(), kMaxTileStorages);
    const TileStorage& tile = dynamic_.tiles[index];
    const std::string where = strCat("tile storage ", index);
    if (tile.unit >= dynamic_.units.size() || tile.part >= dynamic_.units[tile.unit].parts.size())
      return dataLoss(strCat(where, " is filled by part ", tile.part, " of unit ", tile.unit, ", which there is not"));
    const size_t rank = program_.ops[dynamic_.units[tile.unit].parts[tile.part].ops[0]].space.size();
    std::vector<uint32_t> order = tile.order;
    std::sort(order.begin(), order.end());
    bool permutation = order.size() == rank && tile.sizes.size() == rank && tile.dim < rank;
    for (size_t d = 0; permutation && d < rank; ++d) permutation = order[d] == d;
    if (!permutation)
      return dataLoss(strCat(where, " has ", tile.sizes.size(), " sizes, an order of ", tile.order.size(),
                             " dimensions and is cut along ", tile.dim, ", but its part's index space has rank ",
                             rank));
    for (uint32_t size : tile.sizes) HPU_RETURN_IF_ERROR(checkExpr(size, where));
    if (tile.slots < 1 || tile.slots > kMaxTileSlots || tile.begin > tile.end || tile.end > dynamic_.units.size())
      return dataLoss(strCat(where, " has ", tile.slots, " slots, from place ", tile.begin, " to ", tile.end,
                             "; slots are 1 to ", kMaxTileSlots, ", places up to the number of units"));
    if (tile.users.empty()) return dataLoss(where + " has no users");
    bool inPart = true, inUnit = true, haveDim = true;
    for (const TileStorage::User& user : tile.users) {
      HPU_ASSIGN(const Operand* operand, findOperand(user.op, user.operand, where));
      HPU_RETURN_IF_ERROR(place(user.op, user.operand, Place::kTile));
      if (operand->section != sram_ || sram_ == kNone || elementSize(operand->type) != tile.elementBytes)
        return dataLoss(strCat(where, " is used by operand ", user.operand, " of ", opText(program_, user.op),
                               ", which is not in SRAM or has other elements"));
      uint32_t seen = 0;
      bool known = user.dims.size() == operand->sizes.size();
      // A scalar has none.
      const bool own = !user.strides.empty() || (operand->sizes.empty() && user.offset != TileStorage::User::kNoOffset);
      if (own && user.strides.size() != operand->sizes.size())
        return dataLoss(strCat(where, " is seen by ", opText(program_, user.op), " through ", user.strides.size(),
                               " strides, but its operand has ", operand->sizes.size(), " dimensions"));
      if (!own && user.offset != TileStorage::User::kNoOffset)
        return dataLoss(
            strCat(where, " is seen by ", opText(program_, user.op), " from an offset, but with no strides"));
      for (uint32_t stride : user.strides) HPU_RETURN_IF_ERROR(checkExpr(stride, where));
      if (own) HPU_RETURN_IF_ERROR(checkExpr(user.offset, where));
      for (uint32_t dim : user.dims) {
        if (dim == kNone) continue;
        known &= !own || dim == tile.dim;
        known &= dim < rank && !(seen >> std::min<uint32_t>(dim, 31) & 1);
        seen |= 1u << std::min<uint32_t>(dim, 31);
      }
      if (!known)
        return dataLoss(strCat(where, " is seen by ", opText(program_, user.op),
                               " through dimensions that are not those of the operand or of the result"));
      inUnit &= unitOf_[user.op].first == tile.unit;
      inPart &= unitOf_[user.op] == std::pair(tile.unit, tile.part);
      haveDim &= (seen >> tile.dim & 1) != 0;
    }
    if (tile.slots > 1 && !inUnit) return dataLoss(where + " has several slots, but users in several units");
    if ((inPart || tile.slots > 1) && !haveDim)
      return dataLoss(strCat(where, " is cut along dimension ", tile.dim, ", which not all of its users see"));
    return okStatus();
  }

  /// What the planner moves must be said to lie somewhere.
  Status verifyPlaces() {
    for (uint32_t op = 0; op < program_.ops.size(); ++op)
      for (uint32_t o = 0; const Operand* operand = operandAt(program_.ops[op], o); ++o) {
        const Place place = places_[firstOperand_[op] + o];
        const bool planned = operand->section == workspace_ ? place == Place::kStorage
                             : operand->section == sram_    ? place == Place::kTile
                                                            : true;
        if (!planned)
          return dataLoss(strCat("operand ", o, " of ", opText(program_, op), " is in section ", operand->section,
                                 ", which is planned for each launch, but in no storage of it"));
      }
    return okStatus();
  }

  // ---- Tiles and kernels -----------------------------------------------------------------------------

  Status verifyChoices() {
    const std::vector<TileChoice>& choices = dynamic_.choices;
    if (choices.empty() || choices.size() > kMaxTileChoices)
      return dataLoss(strCat("the program has ", choices.size(), " choices of tiles, not 1 to ", kMaxTileChoices));
    const size_t symbols = dynamic_.symbols.size();
    for (size_t c = 0; c < choices.size(); ++c) {
      const TileChoice& choice = choices[c];
      const std::string where = strCat("choice of tiles ", c);
      if (choice.min.size() != symbols || choice.max.size() != symbols || choice.slices.size() != dynamic_.units.size())
        return dataLoss(
            strCat(where, " is not of ", symbols, " free dimensions and ", dynamic_.units.size(), " units"));
      for (size_t s = 0; s < symbols; ++s) {
        const Symbol& symbol = dynamic_.symbols[s];
        if (c + 1 == choices.size() && (choice.min[s] > symbol.min || choice.max[s] < symbol.max))
          return dataLoss(strCat(where, ", the last one, does not hold all sizes of dimension '", symbol.name, "'"));
      }
      uint64_t commands = 0;
      for (uint32_t u = 0; u < dynamic_.units.size(); ++u)
        HPU_RETURN_IF_ERROR(verifySlices(choice, u, where, commands));
      if (commands > kMaxInstanceCommands)
        return dataLoss(strCat(where, " makes ", commands, " commands, more than ", kMaxInstanceCommands));
      for (const TileStorage& tile : dynamic_.tiles) {
        const std::vector<uint32_t>& slices = choice.slices[tile.unit][tile.part];
        const bool isLast = c + 1 == choices.size();
        for (size_t d = 0; isLast && isCut(tile) && d < slices.size(); ++d)
          if (slices[d] > 1 && d != tile.dim)
            return dataLoss(strCat(where, ", the last one, cuts unit ", tile.unit, " along dimension ", d,
                                   ", but its tiles in SRAM are cut along ", tile.dim));
      }
    }
    return okStatus();
  }

  bool isCut(const TileStorage& tile) const {
    return tile.slots > 1 || std::all_of(tile.users.begin(), tile.users.end(), [&](const TileStorage::User& user) {
             return unitOf_[user.op] == std::pair(tile.unit, tile.part);
           });
  }

  Status verifySlices(const TileChoice& choice, uint32_t u, const std::string& where, uint64_t& commands) {
    const DynamicUnit& unit = dynamic_.units[u];
    const auto& parts = choice.slices[u];
    if (parts.size() != unit.parts.size())
      return dataLoss(
          strCat(where, " has slices of ", parts.size(), " parts of unit ", u, ", which has ", unit.parts.size()));
    uint64_t first = 0;
    for (size_t p = 0; p < parts.size(); ++p) {
      const std::vector<uint32_t>& slices = parts[p];
      if (!slices.empty() && slices.size() != program_.ops[unit.parts[p].ops[0]].space.size())
        return dataLoss(strCat(where, " has slices along ", slices.size(), " dimensions for part ", p, " of unit ", u));
      uint64_t count = 1;
      size_t dims = 0;
      for (uint32_t along : slices) {
        if (along == 0 || along > kMaxInstanceCommands || (count *= along) > kMaxInstanceCommands)
          return dataLoss(strCat(where, " cuts unit ", u, " into no slices, or more than ", kMaxInstanceCommands));
        dims += along > 1;
      }
      if (p == 0) first = count;
      if (parts.size() > 1 && (dims > 1 || count != first))
        return dataLoss(strCat(where, " cuts the parts of unit ", u,
                               " along several dimensions, or into different numbers of slices"));
      commands += count * unit.parts[p].ops.size();
    }
    return okStatus();
  }

  Status verifyKernelSizes() {
    if (dynamic_.kernels.size() != program_.kernels.size())
      return dataLoss(strCat("the sizes of ", dynamic_.kernels.size(), " kernels are given, but the program has ",
                             program_.kernels.size()));
    for (size_t k = 0; k < dynamic_.kernels.size(); ++k) {
      const DynamicKernel& sizes = dynamic_.kernels[k];
      const Kernel& kernel = program_.kernels[k];
      const std::string where = strCat("a size of kernel ", k, " '", kernel.name, "'");
      for (uint32_t dim : sizes.dims) HPU_RETURN_IF_ERROR(checkExpr(dim, where));
      HPU_RETURN_IF_ERROR(checkExpr(sizes.scratchBytes, where));
      for (const DynamicKernel::CostTerm& term : sizes.cost) {
        for (double cost : {term.loads, term.stores, term.vectorOps, term.scalarOps})
          if (!std::isfinite(cost) || cost < 0)
            return dataLoss(strCat(where, " is a cost that is negative or not a finite number"));
        for (uint32_t trips : term.trips) HPU_RETURN_IF_ERROR(checkExpr(trips, where));
      }
      if (sizes.reads.size() != kernel.numInputs)
        return dataLoss(
            strCat(where, " says what is read of ", sizes.reads.size(), " of ", kernel.numInputs, " inputs"));
      for (const auto& input : sizes.reads)
        for (const DynamicKernel::Read& read : input) {
          if (read.dim >= static_cast<int32_t>(kernel.rank))
            return dataLoss(strCat(where, " follows dimension ", read.dim, " of an index space of rank ", kernel.rank));
          if (read.dim < 0) continue;
          for (uint32_t expr : {read.scale, read.low, read.high}) HPU_RETURN_IF_ERROR(checkExpr(expr, where));
        }
    }
    return okStatus();
  }

  // ---- At the samples --------------------------------------------------------------------------------

  Status differs(const std::string& what, int64_t has, const SizeValues& values, uint32_t expr) {
    std::optional<int64_t> value = values.find(expr);
    return dataLoss(strCat(what, " is ", has, ", but ", exprText(dynamic_, expr), " is ",
                           value ? std::to_string(*value) : std::string("without a value"), " at the representatives ",
                           sizesText(dynamic_, sampleSizes(dynamic_))));
  }

  Status verifySamples() {
    const Sizes samples = sampleSizes(dynamic_);
    const SizeValues values(dynamic_, samples);
    for (size_t i = 0; i < dynamic_.patches.size(); ++i) {
      const Patch& patch = dynamic_.patches[i];
      const int64_t has = patched(patch);
      if (values.find(patch.expr) != has) return differs(strCat("what patch ", i, " is of"), has, values, patch.expr);
    }
    for (size_t i = 0; i < dynamic_.storages.size(); ++i)
      if (values.find(dynamic_.storages[i].bytes).value_or(-1) < 0)
        return dataLoss(strCat("storage ", i, " has no size at the representatives"));
    HPU_RETURN_IF_ERROR(verifySamplePlaces(values));
    for (size_t t = 0; t < dynamic_.tiles.size(); ++t)
      for (const TileStorage::User& user : dynamic_.tiles[t].users) {
        const Operand& operand = *operandAt(program_.ops[user.op], user.operand);
        for (size_t d = 0; d < user.strides.size(); ++d)
          if (values.find(user.strides[d]) != operand.strides[d])
            return differs(strCat("stride ", d, " of a user of tile storage ", t), operand.strides[d], values,
                           user.strides[d]);
        for (size_t d = 0; d < user.dims.size(); ++d) {
          // One that joins dims of the result is as long as these together.
          if (user.dims[d] == kNone || !user.strides.empty()) continue;
          const uint32_t size = dynamic_.tiles[t].sizes[user.dims[d]];
          if (values.find(size) != operand.sizes[d])
            return differs(strCat("dimension ", d, " of a user of tile storage ", t), operand.sizes[d], values, size);
        }
      }
    for (size_t k = 0; k < dynamic_.kernels.size(); ++k) {
      const auto has = static_cast<int64_t>(program_.kernels[k].scratchBytes);
      const uint32_t expr = dynamic_.kernels[k].scratchBytes;
      if (values.find(expr) != has) return differs(strCat("the scratch of kernel ", k), has, values, expr);
    }
    std::vector<Shape> shapes;
    for (const TensorInfo& input : program_.inputs) shapes.push_back(input.type.shape);
    for (const InputValue& value : dynamic_.values) {
      if (value.element == 0) shapes.emplace_back();
      shapes.back().push_back(samples[value.symbol]);
    }
    StatusOr<Sizes> solved = solveSizes(program_, shapes);
    if (!solved.ok())
      return dataLoss("the representatives do not follow from the inputs' shapes: " + solved.status().message());
    if (*solved != samples)
      return dataLoss(strCat("the inputs' shapes say ", sizesText(dynamic_, *solved), ", but the representatives are ",
                             sizesText(dynamic_, samples)));
    return okStatus();
  }

  /// In the program's own plan, too, what lies in a storage lies together.
  Status verifySamplePlaces(const SizeValues& values) {
    std::vector<std::optional<int64_t>> start(dynamic_.storages.size());
    for (size_t i = 0; i < dynamic_.placements.size(); ++i) {
      const StoragePlacement& placement = dynamic_.placements[i];
      const auto has = static_cast<int64_t>(operandAt(program_.ops[placement.op], placement.operand)->offset);
      const int64_t offset = values.find(placement.offset).value_or(-1);
      std::optional<int64_t>& known = start[placement.storage];
      const bool fits = offset >= 0 && offset <= has && (has - offset) % static_cast<int64_t>(kAlignment) == 0 &&
                        (dynamic_.storages[placement.storage].section == kNone || has == offset);
      if (!fits || (known && *known != has - offset))
        return differs(strCat("the place of operand ", placement.operand, " of ", opText(program_, placement.op),
                              " in storage ", placement.storage, " at byte ", known.value_or(0)),
                       has, values, placement.offset);
      known = has - offset;
    }
    return okStatus();
  }

  int64_t patched(const Patch& patch) const {
    using Field = Patch::Field;
    switch (patch.field) {
      case Field::kInputSize:
        return program_.inputs[patch.index].type.shape[patch.dim];
      case Field::kOutputSize:
        return program_.outputs[patch.index].type.shape[patch.dim];
      case Field::kSpace:
        return program_.ops[patch.index].space[patch.dim];
      case Field::kOperandSize:
        return operandAt(program_.ops[patch.index], patch.operand)->sizes[patch.dim];
      case Field::kOperandStride:
        return operandAt(program_.ops[patch.index], patch.operand)->strides[patch.dim];
      case Field::kOperandOffset:
        break;
    }
    return static_cast<int64_t>(operandAt(program_.ops[patch.index], patch.operand)->offset);
  }

  const Program& program_;
  const Dynamic& dynamic_;
  uint32_t workspace_ = kNone, sram_ = kNone;          ///< Sections.
  std::vector<std::pair<uint32_t, uint32_t>> unitOf_;  ///< By op: unit and part.
  std::vector<uint32_t> firstOperand_;                 ///< By op, in places_.
  std::vector<Place> places_;                          ///< By operand of the program.
};

}  // namespace

Status verifyDynamic(const Program& program) {
  if (!program.dynamic) return okStatus();
  return DynamicVerifier(program, *program.dynamic).run();
}

}  // namespace hpu::recipe
