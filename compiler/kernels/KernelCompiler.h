// SPDX-License-Identifier: Apache-2.0
// Compiles TPC kernels: hpu ops in, one flat native image per CPU variant out (ABI:
// src/recipe/KernelAbi.h). The one thing to know: a kernel's index space is the logical box of its
// first output; addresses and the slice come at run time, so one kernel serves the whole op and any slice. Sizes and
// strides are baked into the code where they are constants; where they depend on free dimensions (SymInt), the code
// reads CompiledKernel::dims at run time, and one kernel serves all sizes.
//
//   KernelRequest request{"bias+gelu", &cluster.getBody().front(), {xView, biasView}, {yView}};
//   HPU_ASSIGN(KernelSet set, compileKernels({request}, {}));
//
// Inside a kernel every float value is f32 from op to op; it is rounded (to nearest even) only
// where it is stored to an operand of a narrower type, or where the graph has an explicit hpu.cast.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/kernels/KernelCost.h"
#include "compiler/kernels/KernelPlan.h"
#include "hpu/status.h"
#include "llvm/ADT/ArrayRef.h"
#include "recipe/Recipe.h"

namespace mlir {
class Block;
class Operation;
}  // namespace mlir

namespace hpu::kernels {

struct KernelRequest {
  std::string name;             ///< For errors only.
  mlir::Block* body = nullptr;  ///< Ops between the block's arguments and hpu.yield.
  /// One for each block argument and each yielded value: logical sizes (those of the value's type)
  /// and strides in elements, 0 where the operand repeats; negative ones are allowed.
  llvm::SmallVector<OperandView, 4> inputs, outputs;
  /// What in the body depends on free dimensions; sizes of the views that do must be the same.
  SymbolicNumbers symbols = {};
};

/// What recipes carry unless they are made for one CPU. (A function, because GCC 12 loses the list of a member's
/// braced initializer.)
inline llvm::SmallVector<recipe::CpuVariant, 2> defaultVariants() {
  llvm::SmallVector<recipe::CpuVariant, 2> variants;
  variants.push_back(recipe::CpuVariant::kX86_64_v3);
  variants.push_back(recipe::CpuVariant::kX86_64_v4);
  return variants;
}

struct KernelOptions {
  llvm::SmallVector<recipe::CpuVariant, 2> variants = defaultVariants();
  int optLevel = 2;  ///< LLVM's code generation level, 0 to 3.
  int threads = 0;   ///< 0: as base::numThreads() says.
};

/// Of a kernel whose sizes depend on free dimensions; empty for others.
struct SymbolicFacts {
  std::vector<SymInt> dims;    ///< HpuKernelArgs::dims: the values at launch, in this order.
  std::vector<CostTerm> cost;  ///< Of the whole index space.
  SymInputReads reads;
};

struct CompiledKernel {
  recipe::TpcCost cost;       ///< Defined in KernelCost.h; at the representatives.
  uint64_t scratchBytes = 0;  ///< Of one call, for all sizes within the bounds; at most 80 KB.
  uint32_t rank = 0;
  uint32_t wholeDims = 0;  ///< Bit d: dim d must be whole in every call.
  SymbolicFacts symbolic;
};

struct KernelSet {
  std::vector<CompiledKernel> kernels;      ///< By request.
  std::vector<recipe::KernelImage> images;  ///< By variant; `entries` by request. Equal requests share code.
  size_t distinct = 0;                      ///< Kernels that were compiled.
};

/// The images are the same for the same requests, whatever the number of threads. Any thread may
/// call. Errors: kUnimplemented (an op, element type or combination that kernels cannot do, with
/// its name), kInvalidArgument (operands that do not fit the body), kInternal.
StatusOr<KernelSet> compileKernels(llvm::ArrayRef<KernelRequest> requests, const KernelOptions& options);

/// What the phases ahead of code generation have to know about a kernel.
struct KernelFacts {
  recipe::TpcCost cost;
  uint32_t rank = 0, wholeDims = 0;
  recipe::InputReads reads;  ///< At the representatives.
  SymbolicFacts symbolic;
};

/// Plans and prices kernels without generating code. Keeps what it has found, by content; one thread at a time.
class KernelPricer {
 public:
  KernelPricer();
  ~KernelPricer();
  KernelPricer(const KernelPricer&) = delete;
  KernelPricer& operator=(const KernelPricer&) = delete;
  /// Errors: as compileKernels.
  StatusOr<KernelFacts> facts(const KernelRequest& request);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Whether ops (in program order) can be one kernel; `why` says why not. Pure, no codegen. Free
/// sizes are taken for sizes other than 1.
bool canFormKernel(llvm::ArrayRef<mlir::Operation*> ops, std::string* why);

/// The vector-level IR of one kernel, for dumps and tests.
StatusOr<std::string> kernelIr(const KernelRequest& request, recipe::CpuVariant variant);

}  // namespace hpu::kernels
