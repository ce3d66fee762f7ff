// SPDX-License-Identifier: Apache-2.0
// Unit: what the functional executor runs from start to end before the next one begins.
// The one thing to know: a unit decides everything when it is made; run only computes and uses the
// threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hpu/status.h"
#include "recipe/Recipe.h"
#include "runtime/driver/sim/functional/KernelCode.h"
#include "runtime/driver/sim/functional/PreparedWeights.h"

namespace hpu::sim {

/// Memory and threads of one launch.
struct RunContext {
  std::byte* const* sections = nullptr;  ///< By section index.
  std::byte* shared = nullptr;           ///< Unit::sharedBytes() bytes.
  std::byte* scratch = nullptr;          ///< Of worker 0; the others follow at `scratchStride`.
  uint64_t scratchStride = 0;            ///< At least Unit::scratchBytes().
  int threads = 1;

  std::byte* scratchOf(int slot) const { return scratch + static_cast<uint64_t>(slot) * scratchStride; }
};

/// Where logical element (0, ..., 0) of an operand lies. The offset may be negative: a ring's slot
/// is addressed as if the whole tensor were there.
struct BufferRef {
  uint32_t section = 0;
  int64_t offset = 0;
  std::byte* in(const RunContext& context) const {
    return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(context.sections[section]) +
                                        static_cast<uintptr_t>(offset));
  }
};

class Unit {
 public:
  virtual ~Unit() = default;
  virtual void run(const RunContext& context) const = 0;
  uint64_t sharedBytes() const { return sharedBytes_; }
  uint64_t scratchBytes() const { return scratchBytes_; }
  /// "mme+tpc conv1+bn1+relu": the engines and the op or bundle.
  const std::string& name() const { return name_; }
  void setName(std::string name) { name_ = std::move(name); }

 protected:
  std::string name_;
  uint64_t sharedBytes_ = 0, scratchBytes_ = 0;
};

/// Executors of instances share units.
using UnitList = std::vector<std::shared_ptr<const Unit>>;

/// The part of an op that a unit executes: a box of its index space and, for ring operands, the
/// slice whose slot they use.
struct OpSlice {
  std::vector<int64_t> lo, hi;
  uint32_t slice = 0;
};

/// The whole op.
OpSlice wholeOp(const recipe::Op& op);
/// Address of an operand within a slice.
BufferRef bufferRef(const recipe::Operand& operand, const OpSlice& slice);

/// What units are made from.
struct BuildContext {
  const recipe::Program& program;
  const KernelCode& code;
  PreparedWeights& weights;
  int threads = 1;
  /// Host memory that is left for constant weights packed ahead (f32, huge pages).
  uint64_t preparedBudget = 0;
  /// Memory behind the program's sections, as one more of them, that units made so far want.
  uint64_t handedOnBytes = 0;
};

/// An op on its own. Errors: kUnimplemented (types or engines that the simulator does not execute).
StatusOr<std::unique_ptr<const Unit>> makeOpUnit(BuildContext& context, const recipe::Op& op, const OpSlice& slice);
/// All ops of a bundle: merged block by block where the dataflow allows, else slice by slice.
Status appendBundleUnits(BuildContext& context, uint32_t bundle, UnitList& units);

}  // namespace hpu::sim
