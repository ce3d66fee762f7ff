// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes are an error or a safe program. The bytes are tried as they are and with
// right checksums, because no mutation would ever find those.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "Exercise.h"
#include "ExerciseInstances.h"
#include "recipe/Container.h"
#include "recipe/RecipeReader.h"

namespace {

void tryRecipe(const uint8_t* data, size_t size) {
  auto program = hpu::recipe::readRecipe(data, size, nullptr, "fuzz.recipe");
  if (!program.ok()) {
    if (program.status().message().empty()) std::abort();
    return;
  }
  std::string problem = hpu::recipe::testing::exerciseProgram(**program);
  if (problem.empty()) problem = hpu::recipe::testing::exerciseInstances(**program);
  if (problem.empty()) return;
  std::fprintf(stderr, "an accepted recipe is not safe: %s\n", problem.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tryRecipe(data, size);
  std::vector<uint8_t> sealed(data, data + size);
  if (hpu::recipe::resealRecipe(sealed).ok()) tryRecipe(sealed.data(), sealed.size());
  return 0;
}
