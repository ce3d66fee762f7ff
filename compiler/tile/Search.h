// SPDX-License-Identifier: Apache-2.0
// Chooses the slices of a program's units by pricing schedules: a pure library over recipe structs.
// The one thing to know: a choice is judged by the modelled time of the units around it, issued as the phase schedule
// will issue them, so overlap of neighbours counts and launch costs of needless slices do too.
#pragma once

#include "compiler/tile/Packing.h"

namespace hpu::tile {

struct SearchUnit {
  std::vector<uint32_t> ops;  ///< In the order of their dataflow.
  /// Not 0: the first op's result is held in two tiles of at most so many bytes.
  int64_t tileBytes = 0;
};

struct SearchOptions {
  bool slice = true;         ///< false: the fewest slices that tileBytes allows, and nothing is packed.
  int64_t windows = 20000;   ///< So many neighbourhoods are priced at most.
  int64_t polishCommands = 400000;  ///< Whole schedules are priced as long as they sum up to fewer commands.
};

struct Tiling {
  /// By unit: the box of a slice; empty when there is none that fits.
  std::vector<std::vector<int64_t>> tiles;
  std::vector<Packing> packings;  ///< By op, each MME op once.
  perfmodel::Picoseconds time = 0;
};

/// `units` in program order; they cover the program's ops. Errors: those of the model.
StatusOr<Tiling> searchTiles(const schedule::IssueContext& context, const std::vector<SearchUnit>& units,
                             const SearchOptions& options);

}  // namespace hpu::tile
