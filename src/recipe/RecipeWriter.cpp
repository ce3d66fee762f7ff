// SPDX-License-Identifier: Apache-2.0
#include "recipe/RecipeWriter.h"

#include <algorithm>
#include <new>

#include "base/File.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "recipe/Container.h"
#include "recipe/RecipeVerifier.h"

namespace hpu::recipe {

namespace {

StatusOr<EncodedRecipe> encodeVerified(const Program& program) {
  if (Status status = verifyProgram(program); !status.ok()) {
    return invalidArgument("the program cannot be written as a recipe: " + status.message());
  }
  return encodeProgram(program);
}

}  // namespace

StatusOr<std::vector<uint8_t>> writeRecipe(const Program& program) {
  try {
    HPU_ASSIGN(EncodedRecipe encoded, encodeVerified(program));
    return joinRecipe(std::move(encoded));
  } catch (const std::bad_alloc&) {
    return resourceExhausted("out of host memory while encoding the recipe '" + program.name + "'");
  }
}

Status writeRecipeFile(const Program& program, const std::string& path) {
  static constexpr uint8_t kZeros[kPageBytes] = {};
  try {
    HPU_ASSIGN(EncodedRecipe encoded, encodeVerified(program));
    HPU_ASSIGN(base::AtomicFile file, base::AtomicFile::create(path));
    HPU_RETURN_IF_ERROR(file.append(encoded.head.data(), encoded.head.size()));
    for (const EncodedRecipe::Piece& piece : encoded.pieces) {
      for (uint64_t left = piece.paddingBefore; left > 0;) {
        uint64_t bytes = std::min(left, kPageBytes);
        HPU_RETURN_IF_ERROR(file.append(kZeros, bytes));
        left -= bytes;
      }
      HPU_RETURN_IF_ERROR(file.append(piece.data, piece.bytes));
    }
    return file.commit();
  } catch (const std::bad_alloc&) {
    return resourceExhausted("out of host memory while writing the recipe '" + path + "'");
  }
}

}  // namespace hpu::recipe
