// SPDX-License-Identifier: Apache-2.0
// Variants fit their holder: sizes within its bounds, its tensors, its memory; and each is a program by itself.
#include <algorithm>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "recipe/Dynamic.h"
#include "recipe/RecipeVerifier.h"
#include "recipe/SizeValues.h"
#include "recipe/Variants.h"
#include "recipe/VerifierParts.h"

namespace hpu::recipe {

using base::strCat;

namespace {

class VariantVerifier {
 public:
  VariantVerifier(const Program& holder, size_t index)
      : holder_(holder),
        variant_(holder.variants[index]),
        program_(*variant_.program),
        where_(strCat("variant ", index)) {}

  Status run() {
    HPU_RETURN_IF_ERROR(verifySizes());
    HPU_RETURN_IF_ERROR(verifySections());
    if (program_.target != holder_.target || !program_.variants.empty() || !program_.parts.empty())
      return dataLoss(strCat(where_, " has another target than its program, or variants or parts of its own"));
    HPU_RETURN_IF_ERROR(verifyProgram(program_).withContext(where_));
    HPU_RETURN_IF_ERROR(verifySymbols());
    HPU_RETURN_IF_ERROR(verifyTensors(false));
    return verifyTensors(true);
  }

 private:
  Status verifySizes() {
    const std::vector<Symbol>& symbols = holder_.dynamic->symbols;
    if (variant_.sizes.size() != symbols.size())
      return dataLoss(strCat(where_, " has ", variant_.sizes.size(), " sizes, and the program ", symbols.size(),
                             " free dimensions"));
    bool fixes = false;
    for (size_t s = 0; s < symbols.size(); ++s) {
      const int64_t size = variant_.sizes[s];
      if (size == kDynamic) continue;
      fixes = true;
      if (size < symbols[s].min || size > symbols[s].max)
        return dataLoss(strCat(where_, " is for the size ", size, " of '", symbols[s].name, "', which has the bounds ",
                               symbols[s].min, " to ", symbols[s].max));
    }
    return fixes ? okStatus() : dataLoss(where_ + " is for all sizes");
  }

  Status verifySections() {
    const std::vector<Section>&own = program_.sections, &all = holder_.sections;
    if (own.size() != all.size())
      return dataLoss(strCat(where_, " has ", own.size(), " sections, and the program ", all.size()));
    for (size_t s = 0; s < all.size(); ++s) {
      if (own[s].kind != all[s].kind || own[s].binding != all[s].binding)
        return dataLoss(strCat(where_, ": section ", s, " is of another kind or tensor than the program's"));
      const bool isShared = all[s].kind == SectionKind::kConst || all[s].kind == SectionKind::kPersistent;
      if (isShared && own[s].bytes != all[s].bytes)
        return dataLoss(strCat(where_, ": section ", s, " has ", own[s].bytes,
                               " bytes, and the program's, which it is, ", all[s].bytes));
    }
    return okStatus();
  }

  /// The program's free dimensions are those of the holder that are not fixed. Of all sizes, those that the tensors are
  /// compared at: fixed ones and, of others, the program's representatives.
  Status verifySymbols() {
    const std::vector<Symbol>& symbols = holder_.dynamic->symbols;
    sizes_ = variant_.sizes;
    if (program_.dynamic)
      for (const Symbol& symbol : program_.dynamic->symbols) {
        auto same = std::find_if(symbols.begin(), symbols.end(), [&](const Symbol& each) {
          return each.name == symbol.name && each.min == symbol.min && each.max == symbol.max;
        });
        if (same == symbols.end() || variant_.sizes[static_cast<size_t>(same - symbols.begin())] != kDynamic)
          return dataLoss(strCat(where_, " has the free dimension '", symbol.name,
                                 "', which the program has not, or with other bounds, or which the variant fixes"));
        sizes_[static_cast<size_t>(same - symbols.begin())] = symbol.sample;
      }
    auto left = std::find(sizes_.begin(), sizes_.end(), kDynamic);
    if (left == sizes_.end()) return verifyValues();
    return dataLoss(strCat(where_, " neither fixes nor has the free dimension '",
                           symbols[static_cast<size_t>(left - sizes_.begin())].name, "'"));
  }

  /// What elements of inputs say, they say of the variant, too.
  Status verifyValues() {
    for (const InputValue& value : holder_.dynamic->values)
      if (variant_.sizes[value.symbol] != kDynamic)
        return dataLoss(strCat(where_, " fixes the free dimension '", holder_.dynamic->symbols[value.symbol].name,
                               "', which is a value of an input"));
    if (!program_.dynamic || program_.dynamic->values == variantValues(*holder_.dynamic, *program_.dynamic))
      return okStatus();
    return dataLoss(where_ + " takes other sizes than the program from the values of inputs");
  }

  Status verifyTensors(bool isOutput) {
    const std::vector<TensorInfo>& own = isOutput ? program_.outputs : program_.inputs;
    std::vector<TensorInfo> wanted = isOutput ? holder_.outputs : holder_.inputs;
    const char* what = isOutput ? "output" : "input";
    if (own.size() != wanted.size())
      return dataLoss(strCat(where_, " has ", own.size(), " ", what, "s, and the program ", wanted.size()));
    const SizeValues values(*holder_.dynamic, sizes_);
    for (const Patch& patch : holder_.dynamic->patches)
      if (patch.field == (isOutput ? Patch::Field::kOutputSize : Patch::Field::kInputSize)) {
        const std::optional<int64_t> size = values.find(patch.expr);
        if (!size) return dataLoss(strCat(where_, ": for its sizes ", what, " ", patch.index, " has no shape"));
        wanted[patch.index].type.shape[patch.dim] = *size;
      }
    for (size_t i = 0; i < own.size(); ++i)
      if (own[i].name != wanted[i].name || own[i].type.element != wanted[i].type.element ||
          own[i].type.shape != wanted[i].type.shape)
        return dataLoss(strCat(where_, ": ", what, " ", i, " is '", own[i].name, "', ", own[i].type.toString(),
                               ", and the program's for these sizes '", wanted[i].name, "', ",
                               wanted[i].type.toString()));
    return okStatus();
  }

  const Program& holder_;
  const Variant& variant_;
  const Program& program_;
  const std::string where_;
  Sizes sizes_;
};

}  // namespace

Status verifyVariants(const Program& program) {
  if (program.variants.empty()) return okStatus();
  if (!program.dynamic) return dataLoss("the program has variants, but no free dimensions that these could fix");
  if (!program.states.empty()) return dataLoss("the program has states and variants, which exclude each other");
  if (program.variants.size() > kMaxVariants)
    return dataLoss(strCat("the program has ", program.variants.size(), " variants, more than ", kMaxVariants));
  for (size_t v = 0; v < program.variants.size(); ++v) HPU_RETURN_IF_ERROR(VariantVerifier(program, v).run());
  return okStatus();
}

}  // namespace hpu::recipe
