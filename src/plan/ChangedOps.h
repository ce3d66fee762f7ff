// SPDX-License-Identifier: Apache-2.0
// ChangedOps: which ops of an instance have got other numbers than they had: operands, spaces, boxes of commands.
// The one thing to know: what was verified with the numbers of before needs no second look where none is another one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hpu::plan {

/// Ops of an instance, by their number in it, that have other numbers than before.
class ChangedOps {
 public:
  explicit ChangedOps(size_t ops) : changed_(ops) {}
  void add(uint32_t op) { changed_[op] = true; }
  bool has(uint32_t op) const { return changed_[op]; }
  const std::vector<bool>& list() const { return changed_; }

  /// field = value, of this op.
  template <typename T>
  void set(uint32_t op, T& field, const T& value) {
    if (field == value) return;
    field = value;
    changed_[op] = true;
  }

 private:
  std::vector<bool> changed_;
};

}  // namespace hpu::plan
