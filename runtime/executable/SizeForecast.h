// SPDX-License-Identifier: Apache-2.0
// SizeForecast: which sizes the next launch will have, when launches come with sizes that change in equal steps: a
// sequence that grows by a token. Several sequences may take turns.
// The one thing to know: it foresees nothing from sizes that come at random; what it says may be wrong all the same.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "hpu/types.h"

namespace hpu {

/// One thread at a time.
class SizeForecast {
 public:
  /// Launches that are remembered: as many sequences may take turns.
  static constexpr size_t kMost = 16;
  /// Launches in equal steps, that one included which is told, before a step is believed. Among sizes that come at
  /// random three in equal steps are not rare.
  static constexpr size_t kSteps = 4;

  /// Notes the shapes of a launch's inputs, which differ from those told before. What the next launch of the same
  /// sequence has, when it goes on in the same step; null: nobody knows. None of its sizes is below 0.
  std::optional<std::vector<Shape>> next(const std::vector<Shape>& shapes);

 private:
  using Sizes = std::vector<int64_t>;
  bool known(const Sizes& sizes) const;
  bool findStep(const Sizes& sizes);

  std::deque<Sizes> latest_;  ///< All sizes of a launch behind each other; the last one last.
  Sizes step_;                ///< The step that was believed last; empty: none was.
};

}  // namespace hpu
