// SPDX-License-Identifier: Apache-2.0
// Variants (Recipe.h): which of them is for a launch, and how programs that were compiled one by one become a holder
// and its variants. The one thing to know: constants of equal bytes are there once, at one place of one section,
// whichever programs read them; the holder's own stay where they are, so nothing of the holder changes but that its
// sections grow.
//
//   VariantLinker linker(std::move(program));                // of free dimensions
//   HPU_RETURN_IF_ERROR(linker.add({{"seq", 128}}, small));  // compiled with this size
//   std::shared_ptr<Program> recipe = linker.finish();
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hpu/status.h"
#include "recipe/ConstantPool.h"
#include "recipe/Dynamic.h"
#include "recipe/Recipe.h"
#include "recipe/SizeValues.h"

namespace hpu::recipe {

/// The index of the variant that runs launches of these sizes; nothing: the program itself does.
std::optional<size_t> variantFor(const Program& program, const Sizes& sizes);

/// Dynamic::values of a variant: those of its holder, whose elements say the same sizes. Of free dimensions that the
/// variant has not, none: what is left then is not verified.
std::vector<InputValue> variantValues(const Dynamic& holder, const Dynamic& variant);

/// "batch=1, seq=128": what a variant fixes.
std::string variantText(const Dynamic& holder, const Variant& variant);

class VariantLinker {
 public:
  /// `program` has free dimensions and no variants.
  explicit VariantLinker(Program program);

  /// Whether there may be a variant of these sizes. Errors: kInvalidArgument (no such dimension, a size out of its
  /// bounds), kUnimplemented (the value of an input).
  Status check(const std::map<std::string, int64_t>& sizes) const { return symbolSizes(sizes).status(); }

  /// Adds a program that was compiled with these sizes: with the same tensors, and free dimensions that are the others
  /// of the holder. Its name becomes the holder's with the sizes. Errors: those of check(), kInternal (an operand that
  /// reads several constants).
  Status add(const std::map<std::string, int64_t>& sizes, const Program& variant);

  /// Bytes of constants that variants have added: those of which no program before had equal ones.
  uint64_t addedBytes() const { return known_.addedBytes(); }

  /// The holder with its variants, those that fix more sizes first. Not verified. Nothing may be added afterwards.
  std::shared_ptr<Program> finish();

 private:
  struct Added {
    std::vector<int64_t> sizes;
    std::shared_ptr<Program> program;
    std::vector<uint64_t> bytes;  ///< By section of the holder: what the program itself needs there.
  };
  StatusOr<std::vector<int64_t>> symbolSizes(const std::map<std::string, int64_t>& sizes) const;
  std::vector<uint32_t> mapSections(const Program& variant, std::vector<uint64_t>& bytes);
  uint32_t findSection(const Section& section, uint32_t ordinal);
  uint64_t place(const ConstantBlob& blob);

  std::shared_ptr<Program> program_;
  uint32_t constants_ = kNone;  ///< The section of all constants.
  std::vector<Added> added_;
  KnownConstants known_;  ///< The holder's.
};

}  // namespace hpu::recipe
