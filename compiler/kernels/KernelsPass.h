// SPDX-License-Identifier: Apache-2.0
// The phase kernels: compiles every sched.kernel and adds the linked images as sched.code.
#pragma once

#include <memory>
#include <string>

#include "compiler/dialect/sched/SchedOps.h"
#include "compiler/kernels/KernelCompiler.h"

namespace mlir {
class Pass;
}

namespace hpu::kernels {

struct KernelsPassOptions {
  std::string cpu;  ///< As CompileOptions::cpu.
  int optLevel = 2;
  std::string* summary = nullptr;
  /// Where sizes are given late, of each kernel in order; null: nobody asks.
  std::vector<SymbolicFacts>* symbolic = nullptr;
};

/// Module pass, because all kernels are linked once. Post-condition: each kernel has `cost`,
/// `rank`, `whole_dims` and `scratch_bytes`, and each CPU level one sched.code with an entry for
/// every kernel.
std::unique_ptr<mlir::Pass> createKernelsPass(KernelsPassOptions options);
/// What compileKernels needs to know of a kernel of a program.
KernelRequest requestOf(sched::KernelOp kernel);
/// `--hpu-kernel-ir`: prints the vector-level IR of every hpu.cluster to stdout, for dumps and
/// tests.
std::unique_ptr<mlir::Pass> createKernelIrPass();

}  // namespace hpu::kernels
