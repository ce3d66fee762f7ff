// SPDX-License-Identifier: Apache-2.0
// Makes instances of a program that the reader accepted, as a runtime would, and uses them like any program.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "Exercise.h"
#include "plan/Instantiate.h"

namespace hpu::recipe::testing {

/// "" when the instances at the representatives, the least, the largest and near the largest sizes are each a clear
/// error or safe (exerciseProgram); else what is not.
inline std::string exerciseInstances(const Program& program) {
  if (!program.dynamic) return {};
  Sizes least, most, near;
  for (const Symbol& symbol : program.dynamic->symbols) {
    least.push_back(symbol.min);
    most.push_back(symbol.max);
    near.push_back(std::max(symbol.min, symbol.max - 1));  // Of one bucket with `most`.
  }
  const arch::TargetDesc& target = arch::targetDesc(program.target);
  plan::Instances instances(std::make_shared<const Program>(program), target);
  for (const Sizes& sizes : {sampleSizes(*program.dynamic), least, most, near}) {
    for (bool kept : {false, true}) {
      auto make = [&]() -> StatusOr<std::shared_ptr<const Program>> {
        if (kept) return instances.get(sizes);
        auto own = plan::instantiate(program, sizes, target);
        if (!own.ok()) return own.status();
        return std::shared_ptr<const Program>(std::move(*own));
      };
      auto instance = make();
      if (!instance.ok()) {
        if (instance.status().message().empty()) return "an instance that fails without a message";
        continue;
      }
      if (std::string problem = exerciseProgram(**instance); !problem.empty()) return "an instance: " + problem;
    }
    if (auto outputs = plan::outputsFor(program, sizes); !outputs.ok() && outputs.status().message().empty())
      return "outputs that fail without a message";
    std::vector<Shape> shapes;
    for (const TensorInfo& input : program.inputs) shapes.push_back(input.type.shape);
    for (Shape& shape : shapes)
      if (!shape.empty()) shape[0] = sizes.empty() ? 1 : sizes[0];
    for (uint32_t input : valueInputs(program))
      shapes.emplace_back(static_cast<size_t>(std::max<int64_t>(numElements(program.inputs[input].type.shape), 0)),
                          sizes.empty() ? 1 : sizes[0]);
    solveSizes(program, shapes).status().ignore();
  }
  // What runs in the program's place for some sizes, with the program's memory.
  for (const Variant& variant : program.variants) {
    if (variant.program->sections.size() != program.sections.size()) return "a variant of other sections";
    for (size_t s = 0; s < program.sections.size(); ++s)
      if (program.sections[s].kind == SectionKind::kConst &&
          variant.program->sections[s].bytes != program.sections[s].bytes)
        return "a variant of other constants";
    if (std::string problem = exerciseProgram(*variant.program); !problem.empty()) return "a variant: " + problem;
    if (std::string problem = exerciseInstances(*variant.program); !problem.empty()) return "a variant: " + problem;
  }
  return {};
}

}  // namespace hpu::recipe::testing
