// SPDX-License-Identifier: Apache-2.0
// Chains of gemms and kernels: what the search promises, against the same program in one piece.
#include "compiler/tile/Search.h"

#include <gtest/gtest.h>

namespace hpu::tile {
namespace {

using recipe::SectionKind;

constexpr uint32_t kInput = 0, kWorkspace = 1, kWeights = 2, kSram = 3;

/// `layers` times a gemm whose product a kernel takes over, [images, rows, width] throughout.
struct Chain {
  recipe::Program program;
  recipe::KernelReads reads;
  std::vector<SearchUnit> units;
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);

  Chain(int layers, std::vector<int64_t> space, double vectorOps, uint32_t wholeDims = 0) {
    const int64_t width = space[2], elements = space[0] * space[1] * width;
    const auto bytes = static_cast<uint64_t>(elements * 2);
    program.sections = {{SectionKind::kInput, 0, bytes},
                        {SectionKind::kWorkspace, recipe::kNone, bytes * layers},
                        {SectionKind::kConst, recipe::kNone, static_cast<uint64_t>(width * width * 2)},
                        {SectionKind::kSram, recipe::kNone, static_cast<uint64_t>(target.sramBytes / 2)}};
    recipe::Kernel kernel;
    kernel.cost = {1.0 / 128, 1.0 / 128, vectorOps / 128, 0};
    kernel.numInputs = kernel.numOutputs = 1;
    kernel.rank = 3;
    kernel.wholeDims = wholeDims;
    program.kernels = {kernel};
    reads = {{{{0, 1, 0, 0}, {1, 1, 0, 0}, {2, 1, 0, 0}}}};
    auto operand = [&](uint32_t section, uint64_t offset) {
      return recipe::Operand{section, offset, ElementType::kBF16, space, {space[1] * width, width, 1}, {}};
    };
    recipe::Operand from = operand(kInput, 0);
    for (int layer = 0; layer < layers; ++layer) {
      recipe::Op gemm, after;
      gemm.engine = Engine::kMme;
      gemm.space = after.space = space;
      gemm.mme.a = from;
      gemm.mme.b = {kWeights, 0, ElementType::kBF16, {space[0], width, width}, {0, width, 1}, {}};
      gemm.mme.c = operand(kSram, layer * bytes);
      after.engine = Engine::kTpc;
      from = operand(kWorkspace, layer * bytes);
      after.tpc = {0, {gemm.mme.c}, {from}};
      const auto first = static_cast<uint32_t>(program.ops.size());
      units.push_back({{first, first + 1}, target.sramBytes / 4});
      program.ops.push_back(gemm);
      program.ops.push_back(after);
    }
  }

  Tiling search(const SearchOptions& options = {}) const {
    schedule::IssueContext context{program, reads, target, target.clock()};
    StatusOr<Tiling> tiling = searchTiles(context, units, options);
    EXPECT_TRUE(tiling.ok()) << tiling.status().message();
    return tiling.ok() ? *tiling : Tiling();
  }
  /// Time of each engine's work in one piece.
  std::pair<double, double> engines() const {
    schedule::IssueContext context{program, reads, target, target.clock()};
    double mme = 0, tpc = 0;
    for (const SearchUnit& unit : units)
      for (const auto& command : schedule::sliceUnit(context, {unit.ops, {}, recipe::kNone, 0}))
        (command.queue == 0 ? mme : tpc) += static_cast<double>(command.cost.alone);
    return {mme, tpc};
  }
};

TEST(Search, OverlapsTheEngines) {
  // About as much work for the MME as for the TPCs: in one piece they would take turns.
  Chain chain(8, {4, 1024, 1024}, 45);
  auto [mme, tpc] = chain.engines();
  ASSERT_LT(std::max(mme, tpc) / std::min(mme, tpc), 1.6) << mme << " " << tpc;
  Tiling tiling = chain.search();
  EXPECT_LT(static_cast<double>(tiling.time), 1.25 * std::max(mme, tpc));
  Tiling whole = chain.search({.slice = false});
  EXPECT_GT(static_cast<double>(whole.time), 0.95 * (mme + tpc));
}

TEST(Search, LeavesSmallUnitsWhole) {
  Chain chain(3, {2, 16, 64}, 4);
  for (const std::vector<int64_t>& tile : chain.search().tiles) EXPECT_EQ(tile, (std::vector<int64_t>{2, 16, 64}));
}

TEST(Search, KeepsTilesWithinSram) {
  Chain chain(2, {3, 8192, 2048}, 4);  // 96 MiB a product; a tile may have 12.
  for (bool slice : {false, true}) {
    Tiling tiling = chain.search({.slice = slice});
    ASSERT_EQ(tiling.tiles.size(), 2u);
    for (const std::vector<int64_t>& tile : tiling.tiles) {
      ASSERT_EQ(tile.size(), 3u);
      EXPECT_LE(tile[0] * tile[1] * tile[2] * 2, chain.target.sramBytes / 4);
    }
  }
}

TEST(Search, DoesNotCutWhatAKernelNeedsWhole) {
  Chain chain(8, {4, 1024, 1024}, 45, /*wholeDims=*/1);
  bool cut = false;
  for (const std::vector<int64_t>& tile : chain.search().tiles) {
    EXPECT_EQ(tile[0], 4);
    EXPECT_EQ(tile[2], 1024);
    cut |= tile[1] < 1024;
  }
  EXPECT_TRUE(cut);
}

TEST(Search, SaysThatNothingFits) {
  Chain chain(1, {1, 64, 1024}, 4);
  chain.units[0].tileBytes = 1024;  // Less than a row.
  EXPECT_TRUE(chain.search().tiles[0].empty());
}

TEST(Search, IsDeterministicAndEndsWithinItsBudget) {
  Chain chain(20, {4, 1024, 1024}, 20);
  Tiling a = chain.search(), b = chain.search();
  EXPECT_EQ(a.tiles, b.tiles);
  EXPECT_EQ(a.time, b.time);
  EXPECT_GE(chain.search({.windows = 1}).time, a.time);
}

}  // namespace
}  // namespace hpu::tile
