// SPDX-License-Identifier: Apache-2.0
// Constants of programs that were compiled one by one and become one recipe: of equal bytes they are there once.
// The one thing to know: the programs of parts, however deep, each get one section of constants, which is all of the
// pool; so its place in that of the holder is the start.
//
//   ConstantPool pool;
//   uint32_t own = *pool.add(holder);                    // Both are programs that are made; the holder before its
//   parts uint32_t section = *pool.add(body);                  // or behind them. part.sections[section] = {.section =
//   own};           // Where the body has constants: section != kNone. holder->parts.push_back(part); pool.finish();
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hpu/status.h"
#include "recipe/Recipe.h"

namespace hpu::recipe {

/// Finds constants by their bytes.
class KnownConstants {
 public:
  /// `index`: of the blob in its list.
  void add(const ConstantBlob& blob, size_t index);
  /// The offset at which the bytes of `blob` lie in `section`; behind all others, and in `list`, when they are new.
  /// `list` is the one that all calls are about, and `sectionBytes` the size of the section, which grows.
  uint64_t place(const ConstantBlob& blob, uint32_t section, std::vector<ConstantBlob>& list, uint64_t& sectionBytes);
  /// What place() has added.
  uint64_t addedBytes() const { return addedBytes_; }

 private:
  std::unordered_multimap<uint64_t, size_t> known_;
  uint64_t addedBytes_ = 0;
};

/// Gives the operands of `program`, a copy of `source`, other sections, `sections` by section of `source`, and other
/// places for constants: constant i lies at `moved[i]` of its new section. Free dimensions go with them. Errors:
/// kInternal (an operand that reads several constants).
Status moveOperands(const Program& source, const std::vector<uint32_t>& sections, const std::vector<uint64_t>& moved,
                    Program& program);

class ConstantPool {
 public:
  /// Takes the constants of `program`. Returned: its section of constants, for a holder (it has no ops) a new one when
  /// it has none; kNone: it has none. Other sections of constants that it had are empty then. Errors: moveOperands'.
  StatusOr<uint32_t> add(std::shared_ptr<Program> program);
  /// Takes a constant that parts read by their places: its offset in the section of constants of any holder.
  uint64_t place(const ConstantBlob& blob) { return known_.place(blob, kNone, constants_, bytes_); }
  /// Gives all programs the constants of all. Nothing may be added afterwards.
  void finish();
  uint64_t bytes() const { return bytes_; }

 private:
  KnownConstants known_;
  std::vector<ConstantBlob> constants_;
  uint64_t bytes_ = 0;
  std::vector<std::pair<std::shared_ptr<Program>, uint32_t>> users_;
};

}  // namespace hpu::recipe
