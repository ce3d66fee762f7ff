// SPDX-License-Identifier: Apache-2.0
// What is inside of an hpu::Graph: a context and a module with one function `main`; internal.
// The one thing to know: the module is valid at any time (its return grows with every output), but the
// context is single-threaded: hold `mutex` to read the module, and copy it out to work on it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "compiler/import/Importer.h"
#include "hpu/graph.h"
#include "llvm/ADT/DenseSet.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"

namespace hpu {

struct Graph::Impl {
  /// Shared, so that a recipe can keep the constants that it points into alive.
  std::shared_ptr<mlir::MLIRContext> context;
  importer::OwningModule module;
  /// Handles that input(), constant() and op() gave out.
  llvm::DenseSet<const void*> handles;
  mutable std::mutex mutex;
  std::atomic<int> sharers{1};  ///< Graphs that this is inside of: the program's, and those of compilations that go on.

  mlir::func::FuncOp main() const { return module.get().lookupSymbol<mlir::func::FuncOp>("main"); }
};

struct GraphAccess {
  /// A graph around an imported module. `module` must be of `context`.
  static Graph make(std::shared_ptr<mlir::MLIRContext> context, importer::OwningModule module);
  /// A graph without inputs and outputs.
  static Graph empty(std::shared_ptr<mlir::MLIRContext> context, std::string_view name);
  /// The same graph, which lives as long as any of them.
  static Graph share(const Graph& graph);
  static void release(std::unique_ptr<Graph::Impl> impl);
  /// Errors: kFailedPrecondition (it was moved from).
  static Status check(const Graph& graph);
  /// Of a graph that was not moved from.
  static Graph::Impl& impl(const Graph& graph) { return graph.impl(); }
};

namespace importer {
/// A context for one graph: single-threaded, with the dialects of imported modules.
std::shared_ptr<mlir::MLIRContext> makeContext();
}  // namespace importer

}  // namespace hpu
