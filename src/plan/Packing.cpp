// SPDX-License-Identifier: Apache-2.0
#include "plan/Packing.h"

#include <algorithm>

#include "recipe/MmePacking.h"

namespace hpu::plan {
namespace {

/// All small factors, as an odd one may fill the array best; then steps of a quarter and less.
constexpr int64_t kFactors[] = {2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64};

/// Beyond so many times the array's width there is little left to fill at the edge, and zeros are many.
constexpr int64_t kWidths = 4;

/// Legality, and what can be worth its price.
std::vector<int64_t> candidates(const recipe::MmeDesc& mme, const arch::TargetDesc& target) {
  int64_t widest = 0;
  for (const arch::MmeGeometry& geometry : target.mmeGeometries) widest = std::max(widest, geometry.width);
  const bool gemm = mme.kind == recipe::MmeKind::kGemm;
  const int64_t columns = gemm ? mme.c.sizes.back() : mme.c.sizes[1];
  const int64_t pixels = gemm ? mme.c.sizes[mme.c.sizes.size() - 2] : mme.c.sizes[3];
  std::vector<int64_t> factors;
  for (int64_t factor : kFactors) {
    if (factor > pixels || columns > kWidths * widest / factor) break;
    if (recipe::packingObstacle(mme, factor).empty()) factors.push_back(factor);
  }
  return factors;
}

/// Profitability: the commands' costs with the factor, when they are less than `limit` together.
bool price(const IssueContext& context, const recipe::Op& op, const std::vector<SlicedCommand*>& commands,
           perfmodel::Picoseconds& limit, std::vector<perfmodel::Cost>& costs) {
  perfmodel::Picoseconds time = 0;
  costs.clear();
  for (const SlicedCommand* command : commands) {
    costs.push_back(perfmodel::commandCost(context.program, op, command->command, context.target, context.clock));
    time += costs.back().alone;
    if (time >= limit) return false;
  }
  limit = time;
  return true;
}

}  // namespace

int64_t packOp(const IssueContext& context, uint32_t number, const std::vector<SlicedCommand*>& own, bool isSampled) {
  recipe::Op op = context.program.ops[number];
  op.mme.packingFactor = 1;
  const std::vector<SlicedCommand*> priced(own.begin(), isSampled ? own.begin() + 1 : own.end());
  perfmodel::Picoseconds least = perfmodel::kLongestCommand;
  std::vector<perfmodel::Cost> costs, best;
  price(context, op, priced, least, best);
  int64_t chosen = 1;
  for (int64_t factor : candidates(op.mme, context.target)) {
    op.mme.packingFactor = factor;
    if (!price(context, op, priced, least, costs)) continue;
    chosen = factor;
    best.swap(costs);
  }
  if (chosen == 1) return 1;
  if (isSampled) {
    op.mme.packingFactor = chosen;
    least = perfmodel::kLongestCommand;
    if (!price(context, op, own, least, best)) return 1;
  }
  for (size_t i = 0; i < own.size(); ++i) own[i]->cost = best[i];
  return chosen;
}

std::vector<Packing> packCommands(const IssueContext& context, std::vector<SlicedCommand>& commands) {
  std::vector<Packing> packings;
  std::vector<uint32_t> ops;
  for (const SlicedCommand& command : commands)
    if (context.program.ops[command.command.op].engine == Engine::kMme &&
        std::find(ops.begin(), ops.end(), command.command.op) == ops.end())
      ops.push_back(command.command.op);
  for (uint32_t number : ops) {
    std::vector<SlicedCommand*> own;
    for (SlicedCommand& command : commands)
      if (command.command.op == number) own.push_back(&command);
    if (const int64_t factor = packOp(context, number, own, false); factor > 1) packings.push_back({number, factor});
  }
  return packings;
}

}  // namespace hpu::plan
