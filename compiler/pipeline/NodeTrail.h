// SPDX-License-Identifier: Apache-2.0
// What becomes of one node of the source model, phase by phase: the ops that carry its name, the unit they are in, its
// layout, tile, addresses and commands, and what the phases' reports say about it.
// The one thing to know: it only reads the module, between phases; nothing is recorded while a phase runs.
#pragma once

#include <string>
#include <vector>

#include "compiler/pipeline/Pipeline.h"
#include "hpu/compiler.h"
#include "mlir/IR/BuiltinOps.h"

namespace hpu::pipeline {

class NodeTrail {
 public:
  explicit NodeTrail(std::string node) : node_(std::move(node)) {}

  /// kNotFound with similar names when no op of `module`, as it is before the first phase, comes from the node. A part
  /// of a name that no other node has stands for it.
  Status begin(mlir::ModuleOp module);
  const std::string& node() const { return node_; }
  /// What there is after `phase`; `report` is the text of that phase's report, of which lines about the node are kept.
  void record(Phase phase, mlir::ModuleOp module, const std::string& report);
  std::vector<NodeNote> take() { return std::move(notes_); }

 private:
  bool isMine(mlir::Operation* op) const;
  void graph(Phase phase, mlir::ModuleOp module, std::vector<std::string>& lines);
  void unit(Phase phase, mlir::Operation* unit, std::vector<std::string>& lines) const;
  void program(Phase phase, mlir::ModuleOp module, std::vector<std::string>& lines) const;

  std::string node_;
  std::vector<NodeNote> notes_;
  std::vector<std::string> before_;  ///< The lines on ops of the last phase: said again only when they change.
  bool gone_ = false;
};

}  // namespace hpu::pipeline
