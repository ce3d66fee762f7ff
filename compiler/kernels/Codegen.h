// SPDX-License-Identifier: Apache-2.0
// From a plan to an object file: vector-level IR, LLVM dialect, LLVM IR, x86-64 code.
// The one thing to know: an instance has its own MLIRContext and is used by one thread at a time;
// several instances work in parallel.
#pragma once

#include <memory>
#include <string>

#include "compiler/kernels/KernelCost.h"
#include "compiler/kernels/KernelPlan.h"
#include "compiler/kernels/LoopEmitter.h"
#include "hpu/status.h"
#include "llvm/ADT/SmallVector.h"
#include "recipe/Recipe.h"

namespace hpu::kernels {

/// The name of the function in every object.
inline constexpr llvm::StringLiteral kEntryName = "hpu_kernel";

struct KernelObject {
  llvm::SmallVector<char, 0> elf;  ///< A relocatable object with one global function.
  /// The object of a native kernel, and its function, which `elf` calls as kNativeName.
  std::string native, nativeEntry;
};

VariantTraits traitsOf(recipe::CpuVariant variant);

class Codegen {
 public:
  Codegen();
  ~Codegen();
  Codegen(const Codegen&) = delete;
  Codegen& operator=(const Codegen&) = delete;

  /// `optLevel` 0..3 is LLVM's. Errors: kInternal.
  StatusOr<KernelObject> compile(const PlannedKernel& kernel, const VariantTraits& traits, int optLevel);
  /// The cost a point; `points`: number of index-space points. The same whatever variants are
  /// compiled. `terms`: gets the cost of the whole index space for all sizes, if these are no constants.
  recipe::TpcCost cost(const PlannedKernel& kernel, double points, std::vector<CostTerm>* terms = nullptr);
  /// The vector-level IR as text.
  std::string vectorIr(const PlannedKernel& kernel, const VariantTraits& traits);
  /// Its context keeps every type and attribute that it has seen.
  bool isWorn() const { return uses_ > kMostUses; }

 private:
  static constexpr int64_t kMostUses = 1000;  // Kernels.
  int64_t uses_ = 0;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hpu::kernels
