// SPDX-License-Identifier: Apache-2.0
// From a program of free dimensions (recipe/Dynamic.h) and the sizes of a launch to a program of fixed sizes, without a
// compiler. The one thing to know: an instance is an ordinary program that verifyProgram has accepted; it shares
// constants and kernel images with the program that it is made from, and nothing else.
//
//   HPU_ASSIGN(Sizes sizes, solveSizes(program, shapesOfInputs));    // says which dimension of which input is wrong
//   HPU_ASSIGN(std::vector<TensorInfo> outputs, outputsFor(program, sizes));
//   HPU_ASSIGN(auto instance, instantiate(program, sizes, arch::targetDesc(program.target)));
//
// Who has many launches keeps an Instances: sizes near others that it has planned before cost a fraction.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "arch/TargetDesc.h"
#include "hpu/status.h"
#include "hpu/types.h"
#include "recipe/CommandAccess.h"
#include "recipe/Dynamic.h"
#include "recipe/Recipe.h"
#include "recipe/SizeValues.h"

namespace hpu::plan {

using recipe::Sizes;
using recipe::solveSizes;

/// All functions take a program that verifyProgram has accepted; one of fixed sizes has no symbols, and its instance is
/// a copy. Sizes out of a symbol's bounds are kInvalidArgument; sizes for which the program has no meaning (a product
/// beyond 64 bits) kOutOfRange; what only a damaged recipe can ask for kDataLoss.

/// Names, types and shapes of the outputs.
StatusOr<std::vector<TensorInfo>> outputsFor(const recipe::Program& program, const Sizes& sizes);

/// HBM that a launch needs beside its tensors, the constants and persistent sections.
StatusOr<uint64_t> workspaceBytes(const recipe::Program& program, const Sizes& sizes, const arch::TargetDesc& target);

/// The program for these sizes: the fastest one that a choice of tiles makes, as it is or coarser. Its estimates are of
/// the default clock. `only`: units are cut as this choice says, whatever the sizes.
StatusOr<std::shared_ptr<recipe::Program>> instantiate(const recipe::Program& program, const Sizes& sizes,
                                                       const arch::TargetDesc& target,
                                                       const recipe::TileChoice* only = nullptr);

/// What the kernels of an instance read, for recipe::checkSchedule.
recipe::KernelReads kernelReads(const recipe::Program& program, const Sizes& sizes, const recipe::Program& instance);

/// What instances of similar sizes share: where buffers lie and in which order commands are issued.
struct InstancePlan;

/// The instances of one program. Sizes are planned for by *bucket*, all symbols rounded up (bucketEnd): the first
/// instance of a bucket takes a plan of its upper end, those after it only new extents and waits. All functions may be
/// called from several threads.
class Instances {
 public:
  /// Plans that are kept, those used last.
  static constexpr size_t kMostPlans = 64;

  Instances(std::shared_ptr<const recipe::Program> program, const arch::TargetDesc& target);
  ~Instances();

  /// As instantiate(). It may have a larger workspace, and its estimates may be those of the bucket's upper end.
  StatusOr<std::shared_ptr<const recipe::Program>> get(const Sizes& sizes);

  /// Plans the bucket of these sizes, unless it has been; for sizes that are expected. Those out of bounds and those
  /// that nothing can be planned for change nothing. Throws nothing.
  void prepare(const Sizes& sizes) noexcept;

  struct Stats {
    uint64_t buckets = 0;  ///< Plans for buckets, also those that none of their instances has asked for yet.
    uint64_t planned = 0;  ///< Instances that have a plan of their own.
    uint64_t reused = 0;   ///< Those made from a plan that there was, or that was made for their bucket ...
    uint64_t alike = 0;    ///< ... and of these, those that took its commands with their waits as they are.
  };
  Stats stats() const;

 private:
  struct Spares;
  std::shared_ptr<const recipe::Program> instanceLike(const std::shared_ptr<const InstancePlan>& plan,
                                                      const Sizes& sizes) const;
  Sizes endOf(const Sizes& sizes) const;
  std::shared_ptr<const InstancePlan> planFor(const Sizes& end);
  /// Null: there can be none.
  std::optional<std::shared_ptr<const InstancePlan>> find(const Sizes& key);
  std::optional<std::shared_ptr<const InstancePlan>> findLocked(const Sizes& key);
  void keep(const Sizes& key, std::shared_ptr<const InstancePlan> plan);

  const std::shared_ptr<const recipe::Program> program_;
  const arch::TargetDesc& target_;
  const std::shared_ptr<Spares> spares_;
  mutable std::mutex mutex_;                                                ///< Guards everything below.
  std::list<std::pair<Sizes, std::shared_ptr<const InstancePlan>>> plans_;  ///< That used last first.
  std::vector<Sizes> planning_;                                             ///< Ends that a thread plans for.
  std::condition_variable planned_;                                         ///< There are fewer of these.
  Stats stats_;
};

/// The upper end of the bucket of `size`: of every octave four sizes, and up to 16 the multiples of 4; those below are
/// their own.
int64_t bucketEnd(int64_t size);

}  // namespace hpu::plan
