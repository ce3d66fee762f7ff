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
#include "runtime/driver/sim/functional/HostBuffer.h"
#include "runtime/driver/sim/functional/PreparedWeights.h"
#include "runtime/driver/sim/functional/Unit.h"

namespace hpu::sim {

class ProgramExecutor {
 public:
  struct Options {
    int threads = 0;  ///< <= 0: what hpu::base::numThreads() says where run is called.
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
  /// The same with the mapped kernels and the packed weights of an executor of a program with the same kernel images
  /// and the very same constants: an instance of a recipe of free dimensions.
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
                                                           std::shared_ptr<PreparedWeights> weights);
  Status prepare();
  /// Calls unitDone with the number of units that are done: 0 at the start, then after each.
  Status runUnits(const std::vector<std::byte*>& sectionBases, base::FunctionRef<void(size_t)> unitDone);
  void noteOutputs(const recipe::Op& op);
  Status reserveScratch(int threads);

  std::shared_ptr<const recipe::Program> program_;
  Options options_;
  std::shared_ptr<const KernelCode> code_;
  std::shared_ptr<PreparedWeights> weights_;
  UnitList units_;
  std::vector<size_t> unitsUntil_;  ///< By output: units that must be done for it to be written.
  std::vector<HostBuffer> sram_;    ///< By section; empty for others.
  HostBuffer shared_;
  HostBuffer handedOn_;  ///< What stages of chains hand on: the section behind the program's.
  uint64_t scratchStride_ = 0;

  std::mutex mutex_;
  HostBuffer scratch_;      ///< Of all workers. Guarded by mutex_.
  int scratchWorkers_ = 0;  ///< Guarded by mutex_.
};

}  // namespace hpu::sim
