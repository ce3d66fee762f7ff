// SPDX-License-Identifier: Apache-2.0
// The two doors of the compiler: ONNX files and MLIR in the hpu dialect, both to a module.
// The one thing to know: everything that a model needs and we lack is in one Status, a line for each node,
// before anything else happens.
//
//   MLIRContext context;  importer::registerDialects(context);
//   HPU_ASSIGN(auto module, importer::importOnnxModule(context, "model.onnx", {}));
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/import/OnnxModel.h"
#include "compiler/interp/Tensor.h"
#include "hpu/compiler.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "shape/Interval.h"

namespace hpu::importer {

struct ImportOptions {
  std::map<std::string, Shape> shapes;  ///< Sizes by input name; kDynamic keeps a dimension as it is.
  std::map<std::string, int64_t> dims;  ///< Sizes by the name of a free dimension.
  /// Sizes at which free dimensions are worked with (representatives) while they keep their names, by name.
  std::map<std::string, int64_t> samples;
  shape::SymbolBounds bounds;  ///< Of free dimensions.
  /// Inputs that become constants of the module, by name: for values that shapes depend on.
  std::map<std::string, interp::Tensor> constants;
  std::vector<std::string> plugins;  ///< Files of custom ops.
  /// Sizes of free dimensions that the model's nodes ask for; the import finds them.
  std::map<std::string, int64_t> fixed = {};
  /// Free dimensions that nodes ask to be equal to others, with the names of those; the import finds them.
  std::map<std::string, std::string> joined = {};
};

/// For the import of a file: sizes, and the bounds of dimensions that stay free.
ImportOptions importOptions(const CompileOptions& options);

/// Of a node of the model.
struct NodeOrigin {
  std::string domain;
  int64_t opset = 0;
};

using OwningModule = mlir::OwningOpRef<mlir::ModuleOp>;

/// Loads the dialects that modules of the importer use.
void registerDialects(mlir::MLIRContext& context);

/// The module has one function `main`; its arguments and results carry `hpu.name`. Every op has the name
/// and op of its node as location: `loc(fused<"Conv">["conv1"])`. Errors: kUnimplemented (unsupported nodes,
/// also listed in `unsupported`), kInvalidArgument (a broken graph, options that do not fit), and those
/// of readOnnxModel. After kUnimplemented, `partial` (if not null) is a function of the nodes that could be converted,
/// for finding more that is unsupported, or null. `origins` (if not null) are those of the model's nodes, by name.
StatusOr<OwningModule> importOnnxModule(mlir::MLIRContext& context, const std::string& path,
                                        const ImportOptions& options,
                                        std::vector<UnsupportedNode>* unsupported = nullptr,
                                        OwningModule* partial = nullptr,
                                        std::map<std::string, NodeOrigin>* origins = nullptr);

/// As above from a model that is read already (readOnnxModel, parseOnnxModel).
StatusOr<OwningModule> importOnnxModule(mlir::MLIRContext& context, OnnxModel model, const ImportOptions& options,
                                        std::vector<UnsupportedNode>* unsupported = nullptr,
                                        OwningModule* partial = nullptr,
                                        std::map<std::string, NodeOrigin>* origins = nullptr);

/// Sizes of free dimensions that the module has numbers for, as its model means nothing with others, by name.
std::map<std::string, int64_t> fixedSizes(mlir::ModuleOp module);

/// Free dimensions of the file that the module has under another name, as its model asks them to be equal, with that.
std::map<std::string, std::string> joinedSizes(mlir::ModuleOp module);

/// The option that would give sizes to these free dimensions (base/OptionNames.h).
std::string sizeOptions(const std::vector<std::string>& names);

/// What a program is called: the graph's name, or the file's ("resnet18" for "/models/resnet18.onnx") where the graph
/// has none or the one that an exporter gives to every graph.
std::string programName(const std::string& graphName, const std::string& path);

/// Text or bytecode in the hpu dialect.
StatusOr<OwningModule> importMlirModule(mlir::MLIRContext& context, const std::string& path);
/// As above from the bytes of a file, which may go afterwards; `path` names it in messages.
StatusOr<OwningModule> parseMlirModule(mlir::MLIRContext& context, std::string_view bytes, const std::string& path);

/// Whether the file's first bytes are those of MLIR text or bytecode. Errors: those of opening it.
StatusOr<bool> isMlirFile(const std::string& path);

/// docs/onnx-coverage.md, from the op table and, of each op, the line of tests/conformance/onnx/op_coverage.txt.
std::string coverageDocument(std::string_view found);

}  // namespace hpu::importer
