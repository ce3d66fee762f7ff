// SPDX-License-Identifier: Apache-2.0
// The least arithmetic that an op needs on the TPCs, however it is fused: what lower bounds are made of.
// The one thing to know: it is read from the op's own kernel plan and counts every value once, in the
// same vector instructions that KernelCost counts, but no loads, stores, conversions or repetitions.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "hpu/status.h"
#include "llvm/ADT/ArrayRef.h"

namespace mlir {
class Operation;
}  // namespace mlir

namespace hpu::kernels {

struct PlannedKernel;
struct Prim;

/// Used by one thread at a time; what an op costs a lane is found once and kept.
class WorkCounter {
 public:
  WorkCounter();
  ~WorkCounter();
  WorkCounter(const WorkCounter&) = delete;
  WorkCounter& operator=(const WorkCounter&) = delete;

  /// Vector instructions of kTpcLanes lanes that `op` (a TPC op with static shapes) issues at least. Errors:
  /// kUnimplemented when the op has no kernel.
  StatusOr<double> vectorOps(mlir::Operation* op);
  /// It keeps what it has counted, by the constants of lane-wise ops, too.
  bool isWorn() const { return laneCosts_.size() > kMostCosts; }

 private:
  static constexpr size_t kMostCosts = 4096;
  double vectorOps(const PlannedKernel& kernel);
  /// Of a lane-wise op on one vector.
  double laneCost(const Prim& prim, llvm::ArrayRef<Prim> prims);

  struct State;
  std::unique_ptr<State> state_;
  std::map<std::string, double> laneCosts_;
};

}  // namespace hpu::kernels
