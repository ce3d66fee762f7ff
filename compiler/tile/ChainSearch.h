// SPDX-License-Identifier: Apache-2.0
// Decides which units take turns, slice by slice, so that what passes between them stays in SRAM: a pure library.
// The one thing to know: it starts from slices that were chosen for each unit apart, and chains a link where the
// neighbourhood does not get slower: the workspace gets smaller in any case.
#pragma once

#include <functional>

#include "compiler/tile/Search.h"

namespace hpu::tile {

/// What is known of the units apart, by index.
struct UnitsApart {
  std::function<const std::vector<plan::SlicedCommand>&(size_t)> commands;  ///< In the slices that were chosen.
  std::function<std::vector<int>(size_t)> cuttable;    ///< Dims along which all ops of the unit can be cut.
  std::function<std::vector<int64_t>(int64_t)> sizes;  ///< Of slices of an extent, the largest first.
  std::function<perfmodel::Picoseconds(size_t)> time;  ///< Of the slower engine, not cut.
  std::function<int64_t(size_t)> tileBytes;            ///< In SRAM, in the slices that were chosen.
};

struct ChainPlan {
  std::vector<Chaining> chains;             ///< By link.
  std::vector<std::vector<int64_t>> tiles;  ///< By unit; empty where it is in no chain.
  std::vector<plan::Packing> packings;      ///< Of MME ops in chains.
  perfmodel::Picoseconds time = 0;          ///< Of the program.
};

StatusOr<ChainPlan> searchChains(const plan::IssueContext& context, const std::vector<SearchUnit>& units,
                                 const std::vector<SearchLink>& links, const UnitsApart& apart,
                                 const SearchOptions& options);

}  // namespace hpu::tile
