// SPDX-License-Identifier: Apache-2.0
// Instance: a program of fixed sizes as the driver has it: a recipe's own, or one that was made of a recipe of free
// dimensions for the sizes of a launch. The one thing to know: it has no memory of its own; constants and workspace
// are its ExecutableState's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hpu/status.h"
#include "recipe/Recipe.h"
#include "recipe/SizeValues.h"
#include "runtime/driver/Driver.h"
#include "runtime/executable/LaunchPlans.h"

namespace hpu {

class DeviceState;

/// The bytes rounded up to where the next section begins.
int64_t alignedSectionBytes(int64_t bytes);
/// A launch gives its address: an input's or an output's.
bool isBoundAtLaunch(recipe::SectionKind kind);

/// Any thread may call anything.
class Instance {
 public:
  /// `sizes`: those that it was made for. `like`: the recipe's own program, or an instance of the same variant, loaded
  /// on the same device; null of a recipe of fixed sizes, and of the first of a variant. Errors: kResourceExhausted
  /// (sections that nothing could hold); the driver's.
  static StatusOr<std::shared_ptr<Instance>> load(const std::shared_ptr<DeviceState>& device,
                                                  std::shared_ptr<const recipe::Program> program,
                                                  recipe::Sizes sizes = {}, const Instance* like = nullptr);
  Instance(std::shared_ptr<DeviceState> device, std::shared_ptr<const recipe::Program> program, recipe::Sizes sizes,
           driver::ProgramId id);
  /// Work that was enqueued goes on.
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const recipe::Program& program() const { return *program_; }
  const recipe::Sizes& sizes() const { return sizes_; }
  driver::ProgramId id() const { return id_; }
  /// Of all workspace sections together, each aligned.
  int64_t workspaceBytes() const { return workspaceBytes_; }
  /// Bytes that a tensor's ops may touch: the tensor's own, or its section's where the shape is open.
  int64_t neededBytes(bool isOutput, size_t index) const;
  /// Bytes of a section that a launch may bind (the tensor's, or workspace); 0 for others.
  int64_t boundBytes(size_t section) const;
  /// Puts the workspace's sections behind one another from `address` on.
  void placeWorkspace(driver::Addresses& sections, uint64_t address) const;
  /// Whether a launch may use these addresses as they are: aligned, and no output where other
  /// memory of the launch is.
  Status checkSections(const driver::Addresses& sections) const;
  /// "input 0: 'x', 1x3xf32".
  std::string tensorText(bool isOutput, size_t index) const;
  LaunchPlans& plans() { return plans_; }

 private:
  Status measureSections();

  const std::shared_ptr<DeviceState> device_;
  const std::shared_ptr<const recipe::Program> program_;
  const recipe::Sizes sizes_;
  const driver::ProgramId id_;
  std::vector<int64_t> inputSectionBytes_, outputSectionBytes_;  ///< By tensor; 0: no op touches it.
  int64_t workspaceBytes_ = 0;
  LaunchPlans plans_;
};

}  // namespace hpu
