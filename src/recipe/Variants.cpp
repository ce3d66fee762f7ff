// SPDX-License-Identifier: Apache-2.0
#include "recipe/Variants.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "base/Format.h"
#include "base/Hash.h"
#include "base/StatusMacros.h"
#include "base/Suggest.h"
#include "recipe/CommandAccess.h"
#include "recipe/Dynamic.h"

namespace hpu::recipe {

using base::strCat;

std::optional<size_t> variantFor(const Program& program, const Sizes& sizes) {
  for (size_t v = 0; v < program.variants.size(); ++v) {
    const std::vector<int64_t>& own = program.variants[v].sizes;
    bool fits = own.size() == sizes.size();
    for (size_t s = 0; fits && s < own.size(); ++s) fits = own[s] == kDynamic || own[s] == sizes[s];
    if (fits) return v;
  }
  return std::nullopt;
}

std::vector<InputValue> variantValues(const Dynamic& holder, const Dynamic& variant) {
  std::vector<InputValue> values;
  for (const InputValue& value : holder.values) {
    if (value.symbol >= holder.symbols.size()) continue;
    const std::string& name = holder.symbols[value.symbol].name;
    for (uint32_t s = 0; s < variant.symbols.size(); ++s)
      if (variant.symbols[s].name == name) values.push_back({value.input, value.element, s});
  }
  return values;
}

std::string variantText(const Dynamic& holder, const Variant& variant) {
  std::string text;
  for (size_t s = 0; s < variant.sizes.size(); ++s)
    if (variant.sizes[s] != kDynamic)
      text += strCat(text.empty() ? "" : ", ", holder.symbols[s].name, "=", variant.sizes[s]);
  return text;
}

namespace {

/// Moves the operands of a program from its own sections and constants to the holder's.
class Mover {
 public:
  /// `sections`: by section of the program. `moved`: by constant, where it lies in the holder's section of constants.
  Mover(const Program& source, const std::vector<uint32_t>& sections, const std::vector<uint64_t>& moved,
        Program& program)
      : source_(source), sections_(sections), moved_(moved), program_(program) {
    for (uint32_t i = 0; i < source.constants.size(); ++i) order_.push_back(i);
    std::sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) { return startOf(a) < startOf(b); });
  }

  Status run() {
    if (source_.dynamic) dynamic_ = std::make_shared<Dynamic>(*source_.dynamic);
    for (uint32_t index = 0; index < program_.ops.size(); ++index) {
      uint32_t number = 0;
      while (Operand* operand = operandAt(program_.ops[index], number))
        HPU_RETURN_IF_ERROR(move(index, number++, *operand));
    }
    if (!dynamic_) return okStatus();
    for (Storage& storage : dynamic_->storages)
      if (storage.section != kNone) storage.section = sections_[storage.section];
    for (Patch& patch : dynamic_->patches) {
      if (patch.field != Patch::Field::kOperandOffset) continue;
      auto by = shifts_.find({patch.index, patch.operand});
      if (by != shifts_.end()) patch.expr = plus(patch.expr, by->second);
    }
    program_.dynamic = dynamic_;
    return okStatus();
  }

 private:
  std::pair<uint32_t, uint64_t> startOf(uint32_t constant) const {
    return {source_.constants[constant].section, source_.constants[constant].offset};
  }

  Status move(uint32_t op, uint32_t number, Operand& operand) {
    if (operand.section == kNone) return okStatus();
    const uint32_t from = operand.section;
    operand.section = sections_[from];
    if (source_.sections[from].kind != SectionKind::kConst) return okStatus();
    // What has no elements may lie anywhere.
    auto after = std::upper_bound(order_.begin(), order_.end(), std::pair(from, operand.offset),
                                  [&](const auto& at, uint32_t constant) { return at < startOf(constant); });
    const uint32_t constant = after == order_.begin() ? 0 : *(after - 1);
    const bool found = after != order_.begin() && source_.constants[constant].section == from;
    if (!found && isEmpty(operand)) {
      operand.offset = 0;
      return okStatus();
    }
    const ConstantBlob* blob = found ? &source_.constants[constant] : nullptr;
    const uint64_t within = found ? operand.offset - blob->offset : 0;
    if (!found || (!isEmpty(operand) && (within > blob->bytes || spanOf(op, number, operand) > blob->bytes - within)))
      return internalError(strCat("operand ", number, " of op '", program_.ops[op].name,
                                  "' does not lie in one constant, so it cannot be shared with other programs"));
    const auto shift = static_cast<int64_t>(moved_[constant] - blob->offset);
    operand.offset += static_cast<uint64_t>(shift);
    if (shift != 0) shifts_[{op, number}] = shift;
    return okStatus();
  }

  /// Strides of packed weights say nothing: they lie in one block.
  uint64_t spanOf(uint32_t op, uint32_t number, const Operand& operand) const {
    const bool packed =
        program_.ops[op].engine == Engine::kMme && number == 1 && program_.ops[op].mme.packing == BPacking::kBlocked;
    return packed ? 0 : operandSpanBytes(operand);
  }

  uint32_t add(SizeExpr expr) {
    dynamic_->exprs.push_back(std::move(expr));
    return static_cast<uint32_t>(dynamic_->exprs.size() - 1);
  }
  uint32_t plus(uint32_t expr, int64_t number) {
    auto [known, fresh] = sums_.try_emplace({expr, number}, 0);
    if (fresh) {
      const uint32_t constant = add({SizeExpr::Kind::kConstant, number, {}});
      known->second = add({SizeExpr::Kind::kSum, 0, {expr, constant}});
    }
    return known->second;
  }

  const Program& source_;
  const std::vector<uint32_t>& sections_;
  const std::vector<uint64_t>& moved_;
  Program& program_;
  std::shared_ptr<Dynamic> dynamic_;
  std::vector<uint32_t> order_;                              ///< Constants by their place.
  std::map<std::pair<uint32_t, uint32_t>, int64_t> shifts_;  ///< By op and operand.
  std::map<std::pair<uint32_t, int64_t>, uint32_t> sums_;
};

uint64_t aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

VariantLinker::VariantLinker(Program program) : program_(std::make_shared<Program>(std::move(program))) {
  for (size_t i = 0; i < program_->constants.size(); ++i) {
    const ConstantBlob& blob = program_->constants[i];
    if (constants_ == kNone) constants_ = blob.section;
    if (blob.section == constants_) known_.emplace(base::hash64(blob.data, blob.bytes), i);
  }
}

StatusOr<std::vector<int64_t>> VariantLinker::symbolSizes(const std::map<std::string, int64_t>& sizes) const {
  const std::vector<Symbol>& symbols = program_->dynamic->symbols;
  std::vector<int64_t> own(symbols.size(), kDynamic);
  for (const auto& [name, size] : sizes) {
    auto symbol = std::find_if(symbols.begin(), symbols.end(), [&](const Symbol& each) { return each.name == name; });
    if (symbol == symbols.end()) {
      std::vector<std::string> names;
      for (const Symbol& each : symbols) names.push_back(each.name);
      return invalidArgument(strCat("a variant fixes the dimension '", name,
                                    "', and the recipe has no free dimension of ",
                                    "that name (there are: ", base::join(names), ")", base::didYouMean(name, names)));
    }
    if (size < symbol->min || size > symbol->max)
      return invalidArgument(strCat("a variant fixes the dimension '", name, "' to ", size, ", which its bounds ",
                                    symbol->min, " to ", symbol->max, " do not hold"));
    const auto index = static_cast<uint32_t>(symbol - symbols.begin());
    for (const InputValue& value : program_->dynamic->values)
      if (value.symbol == index)
        return unimplemented(strCat("a variant fixes '", name, "', which is a value of the input '",
                                    program_->inputs[value.input].name,
                                    "'; variants are of sizes that shapes say, so leave it open"));
    own[index] = size;
  }
  return own;
}

/// The holder's section of this kind and binding, the `ordinal`-th; a new one of no bytes when it has none.
uint32_t VariantLinker::findSection(const Section& section, uint32_t ordinal) {
  for (uint32_t s = 0; s < program_->sections.size(); ++s)
    if (program_->sections[s].kind == section.kind && program_->sections[s].binding == section.binding &&
        ordinal-- == 0)
      return s;
  Section made = section;
  made.bytes = 0;
  // Of a tensor that the holder does not touch.
  if (section.kind == SectionKind::kInput)
    made.bytes = static_cast<uint64_t>(program_->inputs[section.binding].type.bytes());
  program_->sections.push_back(made);
  return static_cast<uint32_t>(program_->sections.size() - 1);
}

/// The holder's section for each of the program's.
std::vector<uint32_t> VariantLinker::mapSections(const Program& variant, std::vector<uint64_t>& bytes) {
  std::map<std::pair<SectionKind, uint32_t>, uint32_t> seen;
  std::vector<uint32_t> map;
  for (const Section& section : variant.sections) {
    const bool isConst = section.kind == SectionKind::kConst;
    uint32_t own = isConst ? constants_ : kNone;
    if (own == kNone) own = findSection(section, isConst ? 0 : seen[{section.kind, section.binding}]++);
    if (isConst) constants_ = own;
    if (bytes.size() <= own) bytes.resize(own + 1, 0);
    bytes[own] = section.bytes;
    map.push_back(own);
  }
  return map;
}

/// Where the bytes lie in the section of constants.
uint64_t VariantLinker::place(const ConstantBlob& blob) {
  const uint64_t hash = base::hash64(blob.data, blob.bytes);
  for (auto [at, end] = known_.equal_range(hash); at != end; ++at) {
    const ConstantBlob& own = program_->constants[at->second];
    if (own.bytes == blob.bytes && (own.data == blob.data || std::memcmp(own.data, blob.data, blob.bytes) == 0))
      return own.offset;
  }
  ConstantBlob made = blob;
  made.section = constants_;
  made.offset = aligned(program_->sections[constants_].bytes);
  program_->sections[constants_].bytes = made.offset + blob.bytes;
  known_.emplace(hash, program_->constants.size());
  program_->constants.push_back(std::move(made));
  addedBytes_ += blob.bytes;
  return program_->constants.back().offset;
}

Status VariantLinker::add(const std::map<std::string, int64_t>& sizes, const Program& variant) {
  Added added;
  HPU_ASSIGN(added.sizes, symbolSizes(sizes));
  if (variant.dataSizes != program_->dataSizes)
    return unimplemented(strCat("the variant ", variantText(*program_->dynamic, {added.sizes, nullptr}),
                                " has other sizes that depend on data than the program; leave it out"));
  auto program = std::make_shared<Program>(variant);
  program->dataSizes.clear();
  const std::vector<uint32_t> sections = mapSections(variant, added.bytes);
  std::vector<uint64_t> moved;
  for (const ConstantBlob& blob : variant.constants) moved.push_back(place(blob));
  program->constants.clear();  // finish() gives it those of all.
  HPU_RETURN_IF_ERROR(Mover(variant, sections, moved, *program).run());
  program->name = strCat(program_->name, " [", variantText(*program_->dynamic, {added.sizes, nullptr}), "]");
  added.program = std::move(program);
  added_.push_back(std::move(added));
  return okStatus();
}

std::shared_ptr<Program> VariantLinker::finish() {
  auto fixed = [](const Added& added) {
    return added.sizes.size() - static_cast<size_t>(std::count(added.sizes.begin(), added.sizes.end(), kDynamic));
  };
  std::stable_sort(added_.begin(), added_.end(), [&](const Added& a, const Added& b) { return fixed(a) > fixed(b); });
  for (Added& added : added_) {
    Program& program = *added.program;
    program.sections = program_->sections;
    program.constants = program_->constants;
    added.bytes.resize(program.sections.size(), 0);
    for (size_t s = 0; s < program.sections.size(); ++s) {
      Section& section = program.sections[s];
      if (section.kind == SectionKind::kConst) continue;
      section.bytes = added.bytes[s];
      if (section.kind == SectionKind::kInput)
        section.bytes = std::max(section.bytes, static_cast<uint64_t>(program.inputs[section.binding].type.bytes()));
    }
    program_->variants.push_back({std::move(added.sizes), std::move(added.program)});
  }
  return program_;
}

}  // namespace hpu::recipe
