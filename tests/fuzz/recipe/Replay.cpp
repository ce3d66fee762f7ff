// SPDX-License-Identifier: Apache-2.0
// Recipes of small programs, to be mutated, with the places of their fields.
#include "tests/fuzz/Replay.h"

#include "DynamicSample.h"
#include "PartsSample.h"
#include "SampleProgram.h"
#include "recipe/Container.h"
#include "recipe/RecipeWriter.h"

namespace {

using hpu::fuzz::Input;
using hpu::fuzz::Random;

Input recipeOf(const hpu::recipe::Program& program) {
  auto encoded = hpu::recipe::encodeProgram(program, /*wantFields=*/true);
  if (!encoded.ok()) std::abort();
  Input input;
  for (const auto& field : encoded->fields) input.fields.push_back({field.offset, field.bytes});
  auto bytes = hpu::recipe::joinRecipe(std::move(*encoded));
  input.bytes.assign(bytes.begin(), bytes.end());
  return input;
}

/// In the header or the table of sections.
void anotherHeaderByte(Input& input, Random& random) {
  input.bytes[random() % std::min<size_t>(input.bytes.size(), 512)] = static_cast<char>(random());
}

/// Seldom: what is cut off fails at once.
void cutOffSeldom(Input& input, Random& random) {
  if (random() % 4 == 0) hpu::fuzz::cutOff(input, random);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace hpu::fuzz;
  using namespace hpu::recipe::testing;
  return replay(argc, argv,
                {.name = "recipe",
                 .samples = {recipeOf(sampleProgram()), recipeOf(largeProgram(3, 4)), recipeOf(dynamicSample()),
                             recipeOf(variantsSample()), recipeOf(statesSample()), recipeOf(valuedSample()),
                             recipeOf(dataSizesSample()), recipeOf(partsSample()), recipeOf(nestedSample(3))},
                 .edits = {hostileField, hostileField, hostileField, hostileField, hostileField, anotherBit,
                           anotherHeaderByte, cutOffSeldom},
                 .mostEdits = 5});
}
