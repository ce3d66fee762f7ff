// SPDX-License-Identifier: Apache-2.0
// ProgramExecutor: computes what a recipe's program computes, as fast as this host allows.
// The one thing to know: it knows nothing of device time; it runs ops in Program::hostOrder, merges
// the ops of a bundle cache block by cache block, and its results do not depend on the number of
// threads.
//
//   HPU_ASSIGN(auto executor, ProgramExecutor::create(program, {.threads = 0}));
//   HPU_RETURN_IF_ERROR(executor->run(sectionBases));
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "base/FunctionRef.h"
#include "hpu/status.h"
#include "recipe/Recipe.h"
#include "runtime/driver/sim/functional/PreparedWeights.h"
#include "runtime/driver/sim/functional/ScratchPool.h"
#include "runtime/driver/sim/functional/SharedUnits.h"
#include "runtime/driver/sim/functional/Unit.h"

namespace hpu::sim {

class ProgramExecutor {
 public:
  struct Options {
    int threads = 0;  ///< <= 0: what hpu::base::numThreads() says where run is called.
    /// Of programs that run one after another: they work in the same memory. Null: it has its own.
    std::shared_ptr<ScratchPool> scratch = nullptr;
  };

  /// Prepares a verified program: maps its kernels, makes the micro-kernels, plans blocks and
  /// scratch. Errors: kFailedPrecondition (no kernels for this CPU), kUnimplemented (an op that the
  /// simulator does not execute), kResourceExhausted (memory).
  static StatusOr<std::unique_ptr<ProgramExecutor>> create(std::shared_ptr<const recipe::Program> program,
                                                           const Options& options);
  /// The same with kernels that are already in this process; program.images are not looked at.
  static StatusOr<std::unique_ptr<ProgramExecutor>> create(std::shared_ptr<const recipe::Program> program,
                                                           const Options& options,
                                                           std::shared_ptr<const KernelCode> code);
  /// The same with the mapped kernels, the packed weights, scratch memory and units of an executor of a program with
  /// the same kernel images and the very same constants, and of others made like it: an instance of a recipe of free
  /// dimensions.
  static StatusOr<std::unique_ptr<ProgramExecutor>> create(std::shared_ptr<const recipe::Program> program,
                                                           const Options& options, const ProgramExecutor& like);

  /// Runs the program once. sectionBases[i] is the host address of section i; a null SRAM section
  /// uses the executor's own memory. Any thread may call; concurrent calls run one after another.
  /// Errors: kInvalidArgument (a section has no memory), kResourceExhausted (scratch).
  /// `unitSeconds`, when given, receives the wall time of each unit, in the order of units().
  Status run(const std::vector<std::byte*>& sectionBases, std::vector<double>* unitSeconds = nullptr);

  /// The same; `written` is called with each output of the program as soon as no later unit writes
  /// it, on the calling thread.
  Status run(const std::vector<std::byte*>& sectionBases, base::FunctionRef<void(uint32_t)> written);

  /// Units that run one after another; what tests and benchmarks look at.
  const UnitList& units() const { return units_; }

 private:
  ProgramExecutor() = default;
  static StatusOr<std::unique_ptr<ProgramExecutor>> create(std::shared_ptr<const recipe::Program> program,
                                                           const Options& options,
                                                           std::shared_ptr<const KernelCode> code,
                                                           const ProgramExecutor* like);
  Status prepare(bool sharesUnits);
  StatusOr<std::shared_ptr<const UnitGroup>> makeGroup(const BuildContext& context, uint32_t op, uint32_t bundle) const;
  /// Calls unitDone with the number of units that are done: 0 at the start, then after each.
  Status runUnits(const std::vector<std::byte*>& sectionBases, base::FunctionRef<void(size_t)> unitDone);
  void noteOutputs(const recipe::Op& op);
  uint64_t memoryBytes(int threads) const { return fixedBytes_ + scratchStride_ * static_cast<uint64_t>(threads); }

  std::shared_ptr<const recipe::Program> program_;
  Options options_;
  std::shared_ptr<const KernelCode> code_;

  /// What instances share.
  struct Shared {
    PreparedWeights weights;
    SharedUnits units;
    std::shared_ptr<ScratchPool> scratch;
  };
  std::shared_ptr<Shared> shared_;
  std::vector<std::shared_ptr<const UnitGroup>> groups_;  ///< Those that this has of shared_->units.
  UnitList units_;
  std::vector<size_t> unitsUntil_;  ///< By output: units that must be done for it to be written.

  // Where a run has what in its memory: SRAM sections, then what units share, what stages of chains hand on (the
  // section behind the program's), then the scratch areas of the workers.
  std::vector<uint64_t> sramOffset_;  ///< By section.
  uint64_t sharedOffset_ = 0, handedOnOffset_ = 0, fixedBytes_ = 0;
  uint64_t scratchStride_ = 0;

  std::mutex mutex_;  ///< Runs come one after another.
};

}  // namespace hpu::sim
