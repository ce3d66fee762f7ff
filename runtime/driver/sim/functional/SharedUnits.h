// SPDX-License-Identifier: Apache-2.0
// SharedUnits: units of the instances of a recipe of free dimensions. Most ops of an instance are those of another one,
// byte for byte, or were some sizes ago: their units are made once.
// The one thing to know: it keeps nothing alive; units live as long as an executor has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hpu/status.h"
#include "recipe/Recipe.h"
#include "runtime/driver/sim/functional/Unit.h"

namespace hpu::sim {

/// What became of an op, or of the ops of a bundle.
struct UnitGroup {
  UnitList units;
  uint64_t handedOnBytes = 0;  ///< As BuildContext's: what they want.
  uint64_t preparedBytes = 0;  ///< What they take of BuildContext::preparedBudget.
};

/// All that units of an op or a bundle are made from, but for kernels' code and constants: equal keys, equal units.
class UnitKey {
 public:
  void add(const recipe::Program& program, const recipe::Op& op);
  /// Of a bundle, and where its ops pass on slices also its commands, which say where they are cut.
  void add(const recipe::Bundle& bundle);
  void add(const recipe::Command& command);

  /// Of an op that has a number for all of that (recipe::Op::content): it in place of the rest.
  void addContent(const recipe::Op& op) {
    add(int64_t{-1});  // No engine.
    add(static_cast<int64_t>(op.content));
  }

  bool operator==(const UnitKey&) const = default;
  size_t hash() const;

 private:
  void add(const recipe::Operand& operand);
  void add(const std::vector<int64_t>& list);
  void add(std::string_view name);
  void add(int64_t number) { numbers_.push_back(number); }

  std::vector<int64_t> numbers_;
};

/// Any thread may call.
class SharedUnits {
 public:
  /// Those of the key, or what make() returns. No lock is held meanwhile.
  template <typename Make>
  StatusOr<std::shared_ptr<const UnitGroup>> get(const UnitKey& key, Make&& make) {
    if (auto known = find(key)) return known;
    StatusOr<std::shared_ptr<const UnitGroup>> made = make();
    if (made.ok()) add(key, *made);
    return made;
  }

 private:
  /// Null: there are none.
  std::shared_ptr<const UnitGroup> find(const UnitKey& key) const;
  void add(const UnitKey& key, const std::shared_ptr<const UnitGroup>& group);

  struct Hash {
    size_t operator()(const UnitKey& key) const { return key.hash(); }
  };
  mutable std::mutex mutex_;
  std::unordered_map<UnitKey, std::weak_ptr<const UnitGroup>, Hash> known_;  // Guarded by mutex_.
  size_t cleanAt_ = 256;  ///< Entries at which those that have expired are dropped. Guarded by mutex_.
};

}  // namespace hpu::sim
