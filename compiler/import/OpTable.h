// SPDX-License-Identifier: Apache-2.0
// The table of ONNX ops that import: which opsets are known and which function converts the node.
// The one thing to know: an op's row covers the opsets from `minOpset` to `maxOpset` of the default
// domain; its converter reads node.opset() where the op changed between them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/import/NodeContext.h"

namespace hpu::importer {

/// The newest opset whose changes were looked at for every row.
inline constexpr int64_t kNewestOpset = 26;

using Converter = void (*)(NodeContext&);

struct OpRow {
  const char* op;
  int64_t minOpset, maxOpset;
  Converter convert;
  const char* mnemonic = "";  ///< For converters that serve several ops.
  const char* limits = "";    ///< What is not supported, for the docs.
  const char* domain = "";    ///< Of another one than ONNX's own the opsets are its versions.
};

/// The rows by family, one file each.
llvm::ArrayRef<OpRow> elementwiseRows();
llvm::ArrayRef<OpRow> activationRows();
llvm::ArrayRef<OpRow> shapeRows();
llvm::ArrayRef<OpRow> movementRows();
llvm::ArrayRef<OpRow> matrixRows();
llvm::ArrayRef<OpRow> convolutionRows();
llvm::ArrayRef<OpRow> recurrentRows();
llvm::ArrayRef<OpRow> reductionRows();
llvm::ArrayRef<OpRow> normalizationRows();
llvm::ArrayRef<OpRow> quantizationRows();
llvm::ArrayRef<OpRow> integerProductRows();
llvm::ArrayRef<OpRow> indexingRows();
llvm::ArrayRef<OpRow> lossRows();
llvm::ArrayRef<OpRow> resizeRows();
llvm::ArrayRef<OpRow> samplingRows();
llvm::ArrayRef<OpRow> signalRows();
llvm::ArrayRef<OpRow> volumeRows();
llvm::ArrayRef<OpRow> attentionRows();
llvm::ArrayRef<OpRow> detectionRows();
llvm::ArrayRef<OpRow> randomRows();
llvm::ArrayRef<OpRow> controlFlowRows();
llvm::ArrayRef<OpRow> sequenceRows();
llvm::ArrayRef<OpRow> trainingRows();
llvm::ArrayRef<OpRow> microsoftRows();
llvm::ArrayRef<OpRow> microsoftFusedRows();

/// The row of an op, whatever the opset; null when there is none.
const OpRow* findRow(llvm::StringRef op, llvm::StringRef domain = "");
/// All rows in alphabetical order, ONNX's own domain first.
std::vector<const OpRow*> allRows();
/// The convolution that the attributes of a node describe, without bias, of operands that may be other values
/// than the node's own; null after a failure, which is then recorded. `exact`: they are integers that stand in floats.
Value convolve(NodeContext& node, Value input, Value weights, bool exact = false);
/// Convolutions and pooling with three spatial dimensions, and pooling with positions.
/// What a convolution's weights say beyond elements is known when it is imported: the sizes of the window, and the
/// number of channels where these are in groups. Free dimensions of the operands that can only have one size get it.
/// False after a failure.
bool fixWeights(NodeContext& node, Value input, Value weights);
void convertConvVolume(NodeContext& node);
void convertPoolVolume(NodeContext& node);
/// Shape arithmetic on sizes that may be free: true when the outputs were set from the elements of the
/// inputs. A false leaves the node untouched.
bool convertSymbolically(NodeContext& node);

}  // namespace hpu::importer
