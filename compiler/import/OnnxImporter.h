// SPDX-License-Identifier: Apache-2.0
// OnnxImporter: builds the module of one ONNX model; internal to the importer.
// The one thing to know: a node that cannot be converted poisons its outputs, and all others are still looked at, so
// that one run reports everything: where the file declares the type of such an output a stand-in of that type takes its
// place, and of nodes that read one without a type it is said what holds whatever they read.
#pragma once

#include <map>
#include <set>

#include "compiler/import/Importer.h"
#include "compiler/import/OpTable.h"
#include "compiler/import/ValueSizes.h"
#include "compiler/mlir_import/CustomOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace hpu::importer {

inline constexpr size_t kMostOperands = 4096;  ///< Of a node; and inputs and outputs of the model.

class OnnxImporter {
 public:
  OnnxImporter(mlir::MLIRContext& context, OnnxModel model, const ImportOptions& options, const CustomOps& customOps);
  StatusOr<OwningModule> run();
  const std::vector<Issue>& issues() const { return issues_; }
  /// After run(): sizes of free dimensions that nodes ask for. With these (ImportOptions::fixed) the import is to begin
  /// anew.
  const shape::SymbolBindings& fixedSizes() const { return fixed_; }
  /// The same of those that nodes ask to be equal (ImportOptions::joined).
  const std::map<std::string, std::string>& joinedSizes() const { return joined_; }
  /// Domains and opsets of the model's nodes, by their names.
  std::map<std::string, NodeOrigin> origins() const;
  /// After run() has failed: the function of what could be converted, whose results are the values that nothing reads;
  /// null when it has none. For looking for more that is unsupported.
  OwningModule takePartial();

 private:
  // ---- inputs ----
  Status bindOptions();
  StatusOr<RankedTensorType> inputType(const ValueInfo& info);
  void addInputs();
  /// Gives the input's elements names, or makes it a constant where options give all of them. False and an issue where
  /// they give some.
  bool nameValues(const ValueInfo& info, ImportedValue& value);
  /// Inputs have the numbers of ImportOptions::fixed and the names of ImportOptions::joined as if the file declared
  /// them.
  void fixInputs();
  std::vector<const ValueInfo*> realInputs() const;
  /// An initializer that the graph lists as an input, too, and that the options name in `shapes`: launches give it.
  /// Without that it is a constant, as nearly everybody wants of a file whose IR version (below 4) lists every weight.
  bool isGivenLate(const std::string& initializer) const;

  /// Sequences among the model's inputs become their elements; joinSequences() makes values of these.
  void expandSequences();
  void joinSequences();

  // ---- nodes ----
  void addInitializers(const GraphDef& graph);
  void collectUses(const GraphDef& graph);
  void convertNodes(const std::vector<NodeDef>& nodes);
  void convertNode(const NodeDef& node);
  void convertCustom(const NodeDef& node, const std::vector<ImportedValue*>& inputs, bool standsIn);
  /// Of If, Loop and Scan (ImportControlFlow.cpp). False: it is none of them.
  bool convertControlFlow(const NodeDef& node, const std::vector<ImportedValue*>& inputs);
  void convertIf(const NodeDef& node, const ImportedValue& condition);
  void convertLoop(const NodeDef& node, const std::vector<ImportedValue*>& inputs);
  void convertScan(const NodeDef& node, const std::vector<ImportedValue*>& inputs);
  /// Of a node with sequences or optionals among its operands or results. False: it has none.
  bool convertSequence(const NodeDef& node, const std::vector<ImportedValue*>& inputs);
  void mapSequence(const NodeDef& node, const std::vector<ImportedValue*>& inputs);
  /// Defines the node's outputs, or reports the context's failure.
  void setResults(const NodeDef& node, const NodeContext& context,
                  const std::vector<std::optional<ImportedValue>>& results);
  /// The attribute of a node that is a graph; null when there is none.
  static std::shared_ptr<const GraphDef> bodyOf(const NodeDef& node, llvm::StringRef name);
  /// The nodes of a body once more; its results, or nothing after an issue.
  std::optional<std::vector<ImportedValue>> runBody(const NodeDef& node, const GraphDef& body,
                                                    const std::vector<ImportedValue>& arguments);
  /// Runs the converter on scratch ops and evaluates them. False when the result would be too large.
  bool fold(const NodeDef& node, const OpRow& row, const std::vector<ImportedValue*>& inputs);
  void define(const NodeDef& node, NodeContext& done, bool standsIn = false);
  /// What the options and the file say to a node's converter.
  void inform(const NodeDef& node, NodeContext& context) const;
  void poison(const NodeDef& node);
  /// The node reads a value that is not known before the model runs.
  bool readsData(const NodeDef& node) const;
  /// The declared type of a value between nodes; null when it is not declared or not one of ours.
  RankedTensorType declaredType(const std::string& name);
  /// Reports what is unsupported of a node whatever its poisoned operands are.
  void probe(const NodeDef& node, const OpRow& row, const std::vector<ImportedValue*>& inputs);
  void report(const NodeDef& node, Issue::Kind kind, std::string reason);
  void reportInitializer(const RefusedInitializer& refused);
  /// Says domain, opset and types in the issue.
  void describeNode(Issue& issue, const NodeDef& node) const;
  /// The issue is one of an input or output of the model.
  void describePart(Issue& issue, const std::string& part, const ValueInfo& info) const;
  /// Of the node's own domain; 0 where the model does not import it.
  int64_t versionOf(const NodeDef& node) const;
  /// What is known of a value, or else declared; may be empty.
  std::string typeText(const std::string& name) const;
  /// Why no node of this op, domain and opset is imported; empty when some are.
  std::string refusal(const NodeDef& node, const OpRow* row) const;
  /// Reports what refusal() says of nodes that are not converted, and of those in their bodies.
  void look(const NodeDef& node);
  void lookIntoBodies(const NodeDef& node);

  // ---- results ----
  void addOutputs();
  /// The outputs, elements of sequences one by one.
  std::vector<std::pair<ValueInfo, ImportedValue*>> tensorOutputs();
  void checkDeclared(const ValueInfo& output, RankedTensorType type);
  void removeDeadOps();
  Status failure() const;
  void checkOpset();
  void checkInterface();
  bool isTooLarge();
  Status checkSize();

  mlir::MLIRContext& context_;
  OnnxModel model_;
  const ImportOptions& options_;
  const CustomOps& customOps_;
  int64_t opsetOf(const NodeDef& node) const { return node.opset > 0 ? node.opset : opset_; }
  int64_t opset_ = 0;                                 ///< The model's.
  shape::SymbolBindings bindings_;                    ///< Sizes of free dimensions from the options.
  shape::SymbolBindings fixed_;                       ///< See fixedSizes(),
  std::map<std::string, std::string> joined_;         ///< and joinedSizes().
  std::vector<std::string> freeNames_;                ///< Those that stay free, in the order of the inputs.
  std::vector<ValueSize> valueSizes_;                 ///< Elements of inputs that are free dimensions.
  std::set<std::string> lost_;                        ///< Names without a value because of a fault of the graph.
  std::set<std::string> usedNames_;                   ///< Names that a node or the graph's outputs read.
  std::map<std::string, const ValueInfo*> declared_;  ///< Values between nodes, by name.
  std::map<std::string, const ValueInfo*> declaredOutputs_;
  std::set<const GraphDef*> walked_;  ///< Bodies whose nodes were looked at.
  bool followsFromWhole_ = false;     ///< Faults of nodes may follow from one of the whole model.
  llvm::StringMap<ImportedValue> values_;
  std::vector<Issue> issues_;
  std::map<std::string, size_t> sequenceInputs_;  ///< How many elements they have.
  std::vector<std::unique_ptr<std::vector<ImportedValue>>> outputElements_;
  int64_t foldWork_ = 0;                          ///< What the interpreter may still do.
  int64_t foldedBytes_ = 0, generatedBytes_ = 0;  ///< Constants that folding and converters have made.
  OwningModule module_;
  mlir::func::FuncOp function_;
  mlir::OpBuilder builder_;
};

}  // namespace hpu::importer
