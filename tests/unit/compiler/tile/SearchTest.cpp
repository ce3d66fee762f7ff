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
  std::vector<SearchLink> links;  ///< Each unit's result is the next one's left operand.
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
      const auto unit = static_cast<size_t>(layer);
      if (layer > 0) links.push_back({unit - 1, unit, {{0, 0}, {1, 1}}});
      program.ops.push_back(gemm);
      program.ops.push_back(after);
    }
  }

  Tiling search(const SearchOptions& options = {}) const {
    plan::IssueContext context{program, reads, target, target.clock()};
    StatusOr<Tiling> tiling = searchTiles(context, units, links, options);
    EXPECT_TRUE(tiling.ok()) << tiling.status().message();
    return tiling.ok() ? *tiling : Tiling();
  }
  /// Time of each engine's work in one piece.
  std::pair<double, double> engines() const {
    plan::IssueContext context{program, reads, target, target.clock()};
    double mme = 0, tpc = 0;
    for (const SearchUnit& unit : units)
      for (const auto& command : plan::sliceUnit(context, {unit.ops, {}, recipe::kNone, 0}))
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

/// Bytes of a slice of bf16.
int64_t bytesOf(const std::vector<int64_t>& tile) {
  return tile[0] * tile[1] * tile[2] * 2;
}

TEST(Search, ChainsWhatIsTooLargeForSramAsAWhole) {
  Chain chain(2, {3, 65536, 256}, 4);  // 96 MiB a result, which HBM takes longer for than the MME.
  const int64_t sram = chain.target.sramBytes;
  Tiling apart = chain.search(), tiling = chain.search({.sramBytes = sram});
  EXPECT_LE(tiling.time, apart.time);
  ASSERT_EQ(tiling.chains.size(), 1u);
  int64_t bytes = 0;
  for (const std::vector<int64_t>& tile : tiling.tiles) bytes += 2 * bytesOf(tile);
  for (const Chaining& link : tiling.chains) {
    EXPECT_EQ(link.outcome, Chaining::Outcome::kChained);
    EXPECT_EQ(link.slots, 2);
    EXPECT_EQ(link.bytes, bytesOf(tiling.tiles[0]));
    bytes += link.slots * link.bytes;
  }
  EXPECT_LE(bytes, mostChainBytes(sram));
  EXPECT_EQ(tiling.tiles[1], tiling.tiles[0]);
}

TEST(Search, ScalesSlicesByTheExtents) {
  // The reader sees two images as one dimension of twice the extent.
  Chain chain(2, {8, 8192, 256}, 4);
  recipe::Op& gemm = chain.program.ops[2];
  recipe::Op& after = chain.program.ops[3];
  const std::vector<int64_t> space{16, 4096, 256}, strides{4096 * 256, 256, 1};
  for (recipe::Operand* operand : {&gemm.mme.a, &gemm.mme.c, &after.tpc.inputs[0], &after.tpc.outputs[0]}) {
    operand->sizes = space;
    operand->strides = strides;
  }
  gemm.mme.b.sizes[0] = 16;
  gemm.space = after.space = space;
  chain.links[0].cuts = {{0, 0}};
  Tiling tiling = chain.search({.sramBytes = chain.target.sramBytes});
  ASSERT_EQ(tiling.chains[0].outcome, Chaining::Outcome::kChained)
      << tiling.chains[0].chained << " against " << tiling.chains[0].apart;
  EXPECT_EQ(tiling.tiles[1][0], 2 * tiling.tiles[0][0]);
}

TEST(Search, SaysWhyALinkIsNotChained) {
  auto outcome = [](const Chain& chain, int64_t bytes, size_t link = 0) {
    return chain.search({.sramBytes = bytes}).chains[link].outcome;
  };
  using Outcome = Chaining::Outcome;
  Chain chain(2, {3, 65536, 256}, 4);
  const int64_t limit = chain.target.sramBytes;
  EXPECT_EQ(outcome(chain, 8192), Outcome::kTooLarge);
  chain.links[0].cuts.clear();
  EXPECT_EQ(outcome(chain, limit), Outcome::kNoCut);
  Chain two(3, {8, 4096, 256}, 4);  // The third unit reads both others' results.
  two.links = {{1, 2, {{0, 0}}}, {0, 2, {{0, 0}}}};
  two.program.ops[5].tpc.inputs.push_back(two.program.ops[2].mme.a);
  two.program.ops[5].tpc.kernel = 1;
  two.program.kernels.push_back(two.program.kernels[0]);
  two.reads.push_back({two.reads[0][0], two.reads[0][0]});
  EXPECT_EQ(outcome(two, limit, 0), Outcome::kChained);
  EXPECT_EQ(outcome(two, limit, 1), Outcome::kTaken);
}

TEST(Search, DoesNotChainWhereAKernelReadsMoreThanItsSlice) {
  Chain chain(1, {3, 65536, 256}, 4);
  // A kernel by itself that reads rows with their neighbours.
  recipe::Op window = chain.program.ops[1];
  window.tpc.inputs = {chain.program.ops[1].tpc.outputs[0]};
  window.tpc.outputs[0].offset += window.tpc.outputs[0].offset + uint64_t{3} * 65536 * 256 * 2;
  window.tpc.kernel = 1;
  chain.program.sections[kWorkspace].bytes *= 2;
  chain.program.kernels.push_back(chain.program.kernels[0]);
  chain.reads.push_back({{{0, 1, 0, 0}, {1, 1, -1, 1}, {2, 1, 0, 0}}});
  chain.program.ops.push_back(window);
  chain.units.push_back({{2}, 0});
  chain.links = {{0, 1, {{1, 1}}}};
  SearchOptions options{.sramBytes = chain.target.sramBytes};
  EXPECT_EQ(chain.search(options).chains[0].outcome, Chaining::Outcome::kNoCut);
  chain.reads[1][0][1] = {1, 1, 0, 0};
  EXPECT_EQ(chain.search(options).chains[0].outcome, Chaining::Outcome::kChained);
}

TEST(Search, IsDeterministicAndEndsWithinItsBudget) {
  Chain chain(20, {4, 1024, 1024}, 20);
  Tiling a = chain.search(), b = chain.search();
  EXPECT_EQ(a.tiles, b.tiles);
  EXPECT_EQ(a.time, b.time);
  EXPECT_GE(chain.search({.windows = 1}).time, a.time);
}

TEST(Search, WithoutEffortTakesWhatNeedsNone) {
  Chain chain(8, {4, 1024, 1024}, 45);
  const SearchOptions usual{.sramBytes = chain.target.sramBytes};
  const Tiling none = chain.search(usual.withEffort(0)), little = chain.search(usual.withEffort(10)),
               all = chain.search(usual);
  EXPECT_GT(none.time, all.time);
  EXPECT_LE(little.time, none.time);
  EXPECT_LT(none.time, chain.search({.slice = false}).time);
  for (const Chaining& link : none.chains) EXPECT_NE(link.outcome, Chaining::Outcome::kChained);
  Chain large(2, {3, 8192, 2048}, 4);
  for (const std::vector<int64_t>& tile : large.search(usual.withEffort(0)).tiles)
    EXPECT_LE(bytesOf(tile), large.target.sramBytes / 4);
}

TEST(Search, PricesResultsInSectionsOfTheirOwnLikePartsOfOne) {
  Chain chain(8, {4, 1024, 1024}, 45);
  // Two chains in turns, each layer of one beside a layer of the other.
  for (size_t layer = 7; layer > 1; --layer)
    chain.program.ops[2 * layer].mme.a = chain.program.ops[2 * layer - 3].tpc.outputs[0];
  chain.program.ops[2].mme.a = chain.program.ops[0].mme.a;
  chain.links.clear();
  // In the other program layers lie at the same offset of sections of their own, as outputs of a program do.
  Chain apart = chain;
  const auto bytes = apart.program.sections[kWorkspace].bytes / 8;
  for (recipe::Op& op : apart.program.ops)
    for (uint32_t number = 0; recipe::Operand* operand = recipe::operandAt(op, number); ++number)
      if (operand->section == kWorkspace) {
        operand->section = static_cast<uint32_t>(kSram + 1 + operand->offset / bytes);
        operand->offset = 0;
      }
  for (uint32_t layer = 0; layer < 8; ++layer) apart.program.sections.push_back({SectionKind::kOutput, layer, bytes});
  // Uncut, a layer that waited for the one before it, whose memory it does not touch, would overlap with nothing.
  for (bool slice : {false, true}) {
    const Tiling one = chain.search({.slice = slice}), many = apart.search({.slice = slice});
    EXPECT_EQ(one.time, many.time);
    EXPECT_EQ(one.tiles, many.tiles);
  }
}

}  // namespace
}  // namespace hpu::tile
