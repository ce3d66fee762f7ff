// SPDX-License-Identifier: Apache-2.0
// The cost laws of the MME, the TPCs, the DMAs and the host link; docs/performance-model.md derives
// them.
#include "perfmodel/EngineCost.h"

#include <algorithm>
#include <cmath>

#include "base/Math.h"

namespace hpu::perfmodel {
namespace {

using base::ceilDiv;

constexpr double kMaxPs = static_cast<double>(kLongestCommand);

Picoseconds roundPs(double ps) {
  return static_cast<Picoseconds>(std::llround(std::min(ps, kMaxPs)));
}

Picoseconds transferTime(int64_t bytes, double bytesPerNs) {
  if (bytes <= 0) return 0;
  return static_cast<Picoseconds>(std::min(std::ceil(static_cast<double>(bytes) * 1000.0 / bytesPerNs), kMaxPs));
}

/// Turns cumulative cycles into terms that add up exactly: each term is the difference of two
/// rounded sums.
class TermBuilder {
 public:
  TermBuilder(Cost& cost, double ghz) : cost_(cost), psPerCycle_(1000.0 / ghz) {}
  void addUpTo(Term term, double cycles) { addUpToPs(term, roundPs(cycles * psPerCycle_)); }
  void addUpToPs(Term term, Picoseconds ps) {
    ps = std::max(ps, sum_);
    cost_.terms[static_cast<size_t>(term)] += ps - sum_;
    sum_ = ps;
  }
  Picoseconds sum() const { return sum_; }

 private:
  Cost& cost_;
  double psPerCycle_;
  Picoseconds sum_ = 0;
};

/// Sets compute, alone, bound and the memory term, once the engine's own terms are there.
void finish(const arch::TargetDesc& target, Cost& cost, TermBuilder& terms, Bytes bytes, std::string_view engine) {
  cost.bytes = {std::max<int64_t>(bytes.hbm, 0), std::max<int64_t>(bytes.sram, 0)};
  cost.compute = terms.sum();
  Picoseconds hbm = hbmTime(target, cost.bytes.hbm), sram = sramTime(target, cost.bytes.sram);
  cost.bound = engine;
  if (std::max(hbm, sram) > cost.compute) cost.bound = hbm >= sram ? "hbm" : "sram";
  terms.addUpToPs(Term::kMemory, std::max(hbm, sram));
  cost.alone = terms.sum();
}

double stepCycles(const arch::TargetDesc& target, double kCycles) {
  return std::max(kCycles, static_cast<double>(target.mmeRollupCycles)) + static_cast<double>(target.mmeFillCycles);
}

}  // namespace

Picoseconds hbmTime(const arch::TargetDesc& target, int64_t bytes) {
  return transferTime(bytes, target.hbmBytesPerNs * target.hbmEfficiency);
}

Picoseconds sramTime(const arch::TargetDesc& target, int64_t bytes) {
  return transferTime(bytes, target.sramBytesPerNs);
}

namespace {

/// What tells arrangements apart; false when there is none with this geometry.
bool arrange(const arch::TargetDesc& target, const GemmShape& shape, const arch::MmeTypeRate& rate,
             const arch::MmeGeometry& geometry, GemmPlan& plan) {
  if (geometry.wideTypesOnly && elementSize(shape.type) < 2) return false;
  int64_t height = std::max<int64_t>(geometry.height / rate.heightDivisor, 1);
  if (geometry.concurrent() && (shape.n > geometry.width || shape.m > height)) return false;
  // Splitting over a batch that is not there, or K below one step, buys nothing.
  if (geometry.batch > 1 && shape.batch < 2) return false;

  double batchSteps = static_cast<double>(ceilDiv(shape.batch, geometry.batch));
  double nSteps = static_cast<double>(ceilDiv(shape.n, geometry.width));
  double mSteps = static_cast<double>(ceilDiv(shape.m, height));
  plan.geometry = &geometry;
  plan.steps = batchSteps * nSteps * mSteps;
  plan.kCycles = static_cast<double>(ceilDiv(shape.k, geometry.kSplit)) * rate.cyclesPerK;
  // Walking along the longer side keeps one operand in its buffer, so that both are new only at
  // each turn.
  plan.constrainedSteps = geometry.portConstrained ? batchSteps * std::min(nSteps, mSteps) : 0;
  // Of the operands' lines, the part that the GEMM fills.
  double columns = static_cast<double>(std::min(shape.n, geometry.width));
  double rows = static_cast<double>(std::min(shape.m, height));
  double lines = (columns + rows) / static_cast<double>(geometry.width + height);
  double streamed = plan.kCycles * (1 + target.mmeStreamStall * lines);
  plan.computeCycles = (plan.steps - plan.constrainedSteps) * stepCycles(target, streamed) +
                       plan.constrainedSteps * stepCycles(target, 2 * streamed);
  return true;
}

/// What is the same for every arrangement, as the array has as many results whatever its shape is.
void addCommon(const arch::TargetDesc& target, const GemmShape& shape, const arch::MmeTypeRate& rate, GemmPlan& plan) {
  plan.idealCycles = gemmWork(shape) * target.mmeCostPerK(shape.type) / static_cast<double>(target.mmeMacs());
  auto tall = static_cast<double>(std::max<int64_t>(target.mmeGeometries.front().height / rate.heightDivisor, 1));
  plan.drainCycles = static_cast<double>(target.mmeDrainCycles) * std::min(static_cast<double>(shape.m), tall) / tall;
}

}  // namespace

bool gemmPlanFor(const arch::TargetDesc& target, const GemmShape& shape, const arch::MmeGeometry& geometry,
                 GemmPlan& plan) {
  const arch::MmeTypeRate& rate = target.mmeRate(shape.type);
  if (!arrange(target, shape, rate, geometry, plan)) return false;
  addCommon(target, shape, rate, plan);
  return true;
}

GemmPlan gemmPlan(const arch::TargetDesc& target, const GemmShape& shape) {
  const arch::MmeTypeRate& rate = target.mmeRate(shape.type);
  GemmPlan best, plan;
  for (const arch::MmeGeometry& geometry : target.mmeGeometries)
    if (arrange(target, shape, rate, geometry, plan) && (!best.geometry || plan.computeCycles < best.computeCycles))
      best = plan;
  if (best.geometry) addCommon(target, shape, rate, best);
  return best;
}

double gemmWork(const GemmShape& shape) {
  if (shape.work > 0) return shape.work;
  return static_cast<double>(shape.batch) * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
         static_cast<double>(shape.k);
}

double gemmFlops(const GemmShape& shape) {
  return 2.0 * gemmWork(shape);
}

Bytes gemmBytes(const GemmShape& shape) {
  int64_t size = elementSize(shape.type), resultSize = std::max<int64_t>(size, 2);
  double elements = static_cast<double>(shape.k) * static_cast<double>(shape.m + shape.n);
  double results = static_cast<double>(shape.m) * static_cast<double>(shape.n);
  double bytes = static_cast<double>(shape.batch) *
                 (elements * static_cast<double>(size) + results * static_cast<double>(resultSize));
  return {static_cast<int64_t>(std::min(bytes, 1e18)), 0};
}

Cost gemmCost(const arch::TargetDesc& target, const arch::ClockProfile& clock, const GemmShape& shape, Bytes bytes) {
  Cost cost;
  TermBuilder terms(cost, clock.mmeGhz);
  double cycles = 0;
  if (shape.batch > 0 && shape.m > 0 && shape.n > 0 && shape.k > 0) {
    GemmPlan plan = gemmPlan(target, shape);
    double fill = static_cast<double>(target.mmeFillCycles);
    double regular = plan.steps * stepCycles(target, plan.kCycles);
    terms.addUpTo(Term::kIdeal, plan.idealCycles);
    terms.addUpTo(Term::kEdgeQuantisation, plan.steps * plan.kCycles);
    terms.addUpTo(Term::kRollUp, regular - plan.steps * fill);
    terms.addUpTo(Term::kFillDrain, regular + plan.drainCycles);
    cycles = plan.computeCycles + plan.drainCycles;
    terms.addUpTo(Term::kPorts, cycles);
  }
  cycles += static_cast<double>(target.mmeLaunchCycles);
  terms.addUpTo(Term::kOverhead, cycles);
  terms.addUpTo(Term::kClock, cycles / clock.mmeDerate);
  finish(target, cost, terms, bytes, "mme");
  return cost;
}

Cost tpcCost(const arch::TargetDesc& target, const arch::ClockProfile& clock, const TpcWork& work, Bytes bytes) {
  Cost cost;
  TermBuilder terms(cost, clock.tpcGhz);
  double tpcs = static_cast<double>(target.numTpcs);
  double points = static_cast<double>(std::max<int64_t>(work.points, 0));
  // The four slots issue side by side; a global access holds its slot for several cycles.
  double issue = std::max({work.vectorOps, work.scalarOps, work.loads, work.stores, 0.0});
  double access = std::max({work.loads, work.stores, 0.0}) * static_cast<double>(target.tpcCyclesPerAccess);
  // Work is dealt out in vectors of the result, whole ones.
  double units = std::ceil(points * work.stores);
  double dealt = units > 0 && units < kMaxPs ? std::ceil(units / tpcs) * tpcs / units : 1;
  double spread = points / tpcs;
  terms.addUpTo(Term::kIdeal, spread * issue);
  terms.addUpTo(Term::kEdgeQuantisation, std::ceil(spread * issue * dealt));
  double cycles = std::ceil(spread * dealt * std::max(issue, access));
  terms.addUpTo(Term::kPorts, cycles);
  if (points > 0) cycles += static_cast<double>(target.tpcInstructionLatency);
  terms.addUpTo(Term::kFillDrain, cycles);
  cycles += static_cast<double>(target.tpcLaunchCycles);
  terms.addUpTo(Term::kOverhead, cycles);
  finish(target, cost, terms, bytes, "tpc");
  return cost;
}

Cost dmaCost(const arch::TargetDesc& target, const arch::ClockProfile& clock, Bytes bytes, int64_t engineBytes) {
  int64_t traffic = std::max<int64_t>(bytes.hbm, 0) + std::max<int64_t>(bytes.sram, 0);
  if (engineBytes < 0) engineBytes = (traffic + 1) / 2;
  if (target.numDmas == 0) {
    TpcWork copy;
    copy.points = ceilDiv(engineBytes, target.tpcVectorBytes);
    copy.loads = copy.stores = 1;
    return tpcCost(target, clock, copy, bytes);
  }
  Cost cost;
  TermBuilder terms(cost, 1.0);
  Picoseconds transfer = transferTime(engineBytes, target.dmaBytesPerNs);
  terms.addUpToPs(Term::kIdeal, transfer);
  terms.addUpToPs(Term::kOverhead, transfer + target.dmaLaunchNs * 1000);
  finish(target, cost, terms, bytes, "dma");
  return cost;
}

Cost hostCopyCost(const arch::TargetDesc& target, int64_t bytes) {
  Cost cost;
  TermBuilder terms(cost, 1.0);
  Picoseconds transfer = transferTime(bytes, target.hostLinkBytesPerNs);
  terms.addUpToPs(Term::kIdeal, transfer);
  terms.addUpToPs(Term::kOverhead, transfer + target.dmaLaunchNs * 1000);
  finish(target, cost, terms, {bytes, 0}, "host");
  return cost;
}

}  // namespace hpu::perfmodel
