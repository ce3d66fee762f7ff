// SPDX-License-Identifier: Apache-2.0
// The table of node types (GUIDs): what each takes, gives, and how it is lowered.
// The one thing to know: a family of GUIDs is one file with one array of rows, named in GuidTable.cpp's list and
// nowhere else; its names are those of synapse/graph/GuidList.inc; docs/synapse-guids.md is written from the rows.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hpu/status.h"
#include "hpu/target.h"
#include "hpu/types.h"

namespace hpu::synapse {

class NodeContext;

struct GuidRow {
  std::string_view name;      ///< As in GuidList.inc.
  std::string_view operands;  ///< In order: "x, gamma, [mask], rest...". [..] may be null or left out.
  std::string_view results;   ///< Likewise.
  std::string_view params;    ///< The structure(s), for people: "ns_Softmax", "none". A "?" at the end: optional.
  /// Suffixes that the GUID must have one of ("f32 bf16"); empty: none is needed, any is tolerated.
  std::string_view types;
  void (*lower)(NodeContext&);     ///< Null: known but not there; `argument` says what is missing.
  std::string_view argument = {};  ///< For functions that lower several rows: a mnemonic, mostly.
  unsigned flags = 0;
};

/// GuidRow::flags.
enum : unsigned {
  kOneType = 1,     ///< All data operands and results have one element type.
  kShapesOnly = 2,  ///< Operands and results are shape tensors.
  kMoves = 4,       ///< Elements are copied, never computed with: quantised ones stay what they are.
  /// A formula of several ops: 16-bit floats come as f32 and results are rounded once, however the ops are fused.
  kInF32 = 8,
  /// It orders other nodes and computes nothing: its results hold what their memory held.
  kNothing = 16,
};

/// A name in an operand list.
struct OperandName {
  std::string name;
  bool optional = false, repeated = false;
};
std::vector<OperandName> parseOperands(std::string_view list);

struct GuidMatch {
  const GuidRow* row = nullptr;
  ElementType type = ElementType::kInvalid;    ///< Of the suffix.
  ElementType second = ElementType::kInvalid;  ///< TO of cast_FROM_to_TO.
};

/// Names as synapse/graph/GuidList.h reads them. Errors: its own; kUnimplemented for a type that the row lacks.
StatusOr<GuidMatch> findGuid(std::string_view guid, Target target);
/// Every row, by name.
std::vector<const GuidRow*> guidRows();

// The families.
std::span<const GuidRow> matrixGuids();
std::span<const GuidRow> convolutionGuids();
std::span<const GuidRow> movementGuids();
std::span<const GuidRow> sliceGuids();
std::span<const GuidRow> stridedGuids();
std::span<const GuidRow> shapeGuids();
std::span<const GuidRow> statisticsGuids();
std::span<const GuidRow> einsumGuids();
std::span<const GuidRow> elementwiseGuids();
std::span<const GuidRow> unaryGuids();
std::span<const GuidRow> activationGuids();
std::span<const GuidRow> castGuids();
std::span<const GuidRow> reductionGuids();
std::span<const GuidRow> normalizationGuids();
std::span<const GuidRow> softmaxGuids();
std::span<const GuidRow> attentionGuids();
std::span<const GuidRow> linearGuids();
std::span<const GuidRow> poolingGuids();
std::span<const GuidRow> creationGuids();
std::span<const GuidRow> indexGuids();
std::span<const GuidRow> sortGuids();
std::span<const GuidRow> lossGuids();
std::span<const GuidRow> optimizerGuids();
std::span<const GuidRow> randomGuids();
std::span<const GuidRow> resizeGuids();
std::span<const GuidRow> compilerNodeGuids();

}  // namespace hpu::synapse
