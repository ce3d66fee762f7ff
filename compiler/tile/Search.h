// SPDX-License-Identifier: Apache-2.0
// Chooses the slices of a program's units by pricing schedules: a pure library over recipe structs.
// The one thing to know: a choice is judged by the modelled time of the units around it, issued as the phase schedule
// will issue them, so overlap of neighbours counts and launch costs of needless slices do too.
#pragma once

#include "plan/Packing.h"

namespace hpu::tile {

/// Units of a chain at most: each that is added is priced with all that are there.
constexpr size_t kLongestChain = 16;

struct SearchUnit {
  std::vector<uint32_t> ops;  ///< In the order of their dataflow.
  /// Not 0: the first op's result is held in two tiles of at most so many bytes.
  int64_t tileBytes = 0;
};

/// A unit whose one result (of its last op) only one other unit reads: it may stay in SRAM, where the two are cut
/// alike.
struct SearchLink {
  struct Cut {
    int producerDim = 0, readerDim = 0;  ///< Dims of the two index spaces that may be cut in the same proportion.
  };
  size_t producer = 0, reader = 0;  ///< Indices of units; a unit is the producer of one link at most.
  std::vector<Cut> cuts;
};

/// What became of a link.
struct Chaining {
  enum class Outcome : uint8_t {
    kChained,
    kTaken,     ///< The reader is chained with another producer.
    kNoCut,     ///< Too large for SRAM as a whole, and cut nowhere that the reader could follow.
    kTooLarge,  ///< No slice of it fits into SRAM beside the tiles of its units.
    kTooLong,   ///< A chain with it would have more than kLongestChain units.
    kSlower,
  };
  Outcome outcome = Outcome::kSlower;
  int dim = 0;                                    ///< Of the producer: along which it is cut.
  int64_t slots = 1;                              ///< Tiles in SRAM; one is all of it.
  int64_t bytes = 0;                              ///< Of a tile; of the smallest one when that is too large.
  perfmodel::Picoseconds apart = 0, chained = 0;  ///< Times of the neighbourhood.
};

struct SearchOptions {
  bool slice = true;        ///< false: the fewest slices that tileBytes allows, nothing is packed and no chains.
  int64_t windows = 20000;  ///< So many neighbourhoods are priced at most.
  /// As long as they sum up to fewer commands, with the whole schedules that are priced meanwhile.
  int64_t windowCommands = 300000;
  int64_t polishCommands = 400000;         ///< Whole schedules are priced as long as they sum up to fewer commands.
  int64_t sramBytes = 0;                   ///< For tiles of all kinds; 0: no chains.
  std::function<bool()> isCancelled = {};  ///< True ends the search soon, with kCancelled.

  /// With so many percent of the budget.
  SearchOptions withEffort(int64_t percent) const {
    SearchOptions options = *this;
    for (int64_t* budget : {&options.windows, &options.windowCommands, &options.polishCommands})
      *budget = *budget * percent / 100;
    return options;
  }
};

/// The most that a tile of a bundle may take: two slots of two neighbouring bundles are in SRAM at a time.
constexpr int64_t mostTileBytes(int64_t sramBytes) {
  return sramBytes / 4;
}

/// The most that the tiles of a chain and of its larger neighbour may take together: the rest of the SRAM is for the
/// operands that their products stage there.
constexpr int64_t mostChainBytes(int64_t sramBytes) {
  return sramBytes / 4 * 3;
}

struct Tiling {
  /// By unit: the box of a slice; empty when there is none that fits.
  std::vector<std::vector<int64_t>> tiles;
  std::vector<plan::Packing> packings;  ///< By op, each MME op once.
  std::vector<Chaining> chains;         ///< By link.
  perfmodel::Picoseconds time = 0;
};

/// `units` in program order; they cover the program's ops. Errors: those of the model.
StatusOr<Tiling> searchTiles(const plan::IssueContext& context, const std::vector<SearchUnit>& units,
                             const std::vector<SearchLink>& links, const SearchOptions& options);

}  // namespace hpu::tile
