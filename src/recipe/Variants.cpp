// SPDX-License-Identifier: Apache-2.0
#include "recipe/Variants.h"

#include <algorithm>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "base/Suggest.h"
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

VariantLinker::VariantLinker(Program program) : program_(std::make_shared<Program>(std::move(program))) {
  for (size_t i = 0; i < program_->constants.size(); ++i) {
    const ConstantBlob& blob = program_->constants[i];
    if (constants_ == kNone) constants_ = blob.section;
    if (blob.section == constants_) known_.add(blob, i);
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
  return known_.place(blob, constants_, program_->constants, program_->sections[constants_].bytes);
}

Status VariantLinker::add(const std::map<std::string, int64_t>& sizes, const Program& variant) {
  Added added;
  HPU_ASSIGN(added.sizes, symbolSizes(sizes));
  if (variant.dataSizes != program_->dataSizes)
    return unimplemented(strCat("the variant ", variantText(*program_->dynamic, {added.sizes, nullptr}),
                                " has other sizes that depend on data than the program; leave it out"));
  auto program = std::make_shared<Program>(variant);
  program->dataSizes.clear();
  program->defaults.clear();
  const std::vector<uint32_t> sections = mapSections(variant, added.bytes);
  std::vector<uint64_t> moved;
  for (const ConstantBlob& blob : variant.constants) moved.push_back(place(blob));
  program->constants.clear();  // finish() gives it those of all.
  HPU_RETURN_IF_ERROR(moveOperands(variant, sections, moved, *program));
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
