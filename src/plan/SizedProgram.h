// SPDX-License-Identifier: Apache-2.0
// SizedProgram: a copy of a program of free dimensions that gets the numbers of some sizes: those of tensors, operands,
// index spaces, kernels and packings. What InstanceMemory decides comes in between.
// The one thing to know: a copy that has been an instance before gets only what depends on a number that is another one
// now, and only these ops count as changed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arch/TargetDesc.h"
#include "hpu/status.h"
#include "hpu/types.h"
#include "plan/ChangedOps.h"
#include "plan/InstanceMemory.h"
#include "plan/InstancePlan.h"
#include "recipe/CommandAccess.h"
#include "recipe/Dynamic.h"
#include "recipe/Recipe.h"
#include "recipe/SizeValues.h"

namespace hpu::plan {

/// Gives the tensors that patches of the field are for their sizes.
Status patchTensors(std::vector<TensorInfo>& tensors, recipe::Patch::Field field, const recipe::Dynamic& dynamic,
                    const recipe::SizeValues& values);

/// What the kernels of an instance read. `only`: by kernel, those that are asked for; null: all.
recipe::KernelReads readsOf(const recipe::Dynamic& dynamic, const recipe::SizeValues& values,
                            const recipe::Program& instance, const std::vector<bool>* only = nullptr);

/// The base of what makes an instance. All references must outlive it.
class SizedProgram {
 public:
  SizedProgram(const SizedProgram&) = delete;
  SizedProgram& operator=(const SizedProgram&) = delete;

 protected:
  /// `program` is empty, or an instance of the source.
  SizedProgram(const recipe::Program& source, const recipe::SizeValues& values, const arch::TargetDesc& target,
               std::shared_ptr<recipe::Program> program);

  /// Makes the program a copy of the source, and sets sizes, strides and offsets that are expressions.
  Status copy();
  /// The same for an instance of the plan's ops that was verified with the numbers `before`.
  Status setAgain(const InstancePlan& plan, const recipe::SizeNumbers& before);
  /// Sets what the memory says: places, sections, kernels and packings.
  Status lay(const InstanceMemory& memory);
  /// Verifies all but the commands.
  Status verifyLaid() const;
  /// Gives ops that have changed, or all of a copy, numbers that no other op has.
  void numberContents();
  /// Slices of a packed transposed convolution begin where its period does.
  static bool isCutApart(const recipe::Op& op, const std::vector<int64_t>& box);

  const recipe::Program& source_;
  const recipe::Dynamic& dynamic_;
  const arch::TargetDesc& target_;
  const recipe::SizeValues& values_;
  std::shared_ptr<recipe::Program> program_;
  InstanceOps ops_;
  ChangedOps changed_;
  const std::vector<int64_t>* packings_ = nullptr;  ///< Of a plan, by op of the source; null: none is packed yet.

 private:
  bool isSet(uint32_t expr) const;
  Status setSizes();
  Status patchOp(const recipe::Patch& patch);
  Status checkSpaces() const;
  void addUsers(const std::vector<bool>& sections);
  Status setKernels(const InstanceMemory& memory);
  void setPackings(const InstanceMemory& memory);

  const recipe::SizeNumbers* before_ = nullptr;  ///< Numbers with which the program was verified; null: it was not.
};

}  // namespace hpu::plan
