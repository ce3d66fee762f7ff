// SPDX-License-Identifier: Apache-2.0
// Programs of parts, made by hand: builders of a part's program and of a holder, and a sample with every kind of place.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "recipe/Recipe.h"

namespace hpu::recipe::testing {

/// A program of copies, fills and products, one after another, which needs no kernels.
class PartBuilder {
 public:
  explicit PartBuilder(std::string name);
  uint32_t input(ElementType type, Shape shape);
  uint32_t output(ElementType type, Shape shape);
  uint32_t section(SectionKind kind, uint64_t bytes);
  /// All `count` elements of a section from byte `from` on into another.
  PartBuilder& copy(uint32_t src, uint32_t dst, ElementType type, int64_t count, uint64_t from = 0, uint64_t to = 0);
  /// Adds an input and an output of `count` elements, and copies.
  PartBuilder& passOn(ElementType type, int64_t count);
  PartBuilder& fill(uint32_t dst, ElementType type, int64_t count, uint64_t pattern);
  /// c = a b, n x n of f32.
  PartBuilder& multiply(uint32_t a, uint32_t b, uint32_t c, int64_t n);

  Program program;

  /// With the constants that `holder` has at the places of `part`, which becomes the next of its parts.
  void addTo(Program& holder, Part part) const;

 private:
  void add(Op op);
};

/// A place that stays.
PartPlace at(uint32_t section, uint64_t offset = 0);
/// One that moves.
PartPlace moving(uint32_t section, uint64_t offset, int64_t step);
/// One of two, in the turns of part `turns`: with an odd number of them the second one.
PartPlace turning(uint32_t turns, PartPlace even, PartPlace odd);

/// Sections of a holder: those of inputs and outputs are as large as their tensors, others multiples of kAlignment.
uint32_t addInput(Program& holder, ElementType type, Shape shape);
uint32_t addOutput(Program& holder, ElementType type, Shape shape);
uint32_t addSection(Program& holder, SectionKind kind, uint64_t bytes);
/// Constants that fill a section of their own.
uint32_t addConstants(Program& holder, std::vector<uint8_t> bytes);

/// A sequence with a loop over slices that carries a value, a loop that data ends, two branches, and a loop in a loop.
Program partsSample();
/// The deepest that may be: loops in loops.
Program nestedSample(uint32_t depth);

}  // namespace hpu::recipe::testing
