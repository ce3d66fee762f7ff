// SPDX-License-Identifier: Apache-2.0
// The table of node types against the list that the C API has, and as a document.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "base/Format.h"
#include "bindings/synapse/graph/GuidList.h"
#include "bindings/synapse/lowering/GuidTable.h"

namespace hpu::synapse {
namespace {

using base::strCat;

std::map<std::string_view, const GuidRow*> rowsByName() {
  std::map<std::string_view, const GuidRow*> rows;
  for (const GuidRow* row : guidRows()) rows[row->name] = row;
  return rows;
}

TEST(GuidTable, EveryRowIsANodeTypeOfTheList) {
  std::map<std::string_view, const GuidInfo*> known;
  for (const GuidInfo& info : allGuids()) known[info.name] = &info;
  for (const GuidRow* row : guidRows()) {
    ASSERT_TRUE(known.count(row->name)) << row->name << " is not in GuidList.inc";
    const GuidInfo& info = *known[row->name];
    EXPECT_NE(info.kind, GuidClass::kInternal) << row->name;
    auto least = [](std::string_view list) {
      size_t count = 0, i = 0;
      for (const OperandName& name : parseOperands(list)) {
        ++i;
        if (!name.optional) count = i;
      }
      return count;
    };
    EXPECT_GE(least(row->operands), info.minInputs) << row->name << " needs fewer operands than the list says";
    EXPECT_LE(least(row->operands), info.maxInputs) << row->name;
    EXPECT_LE(least(row->results), info.maxOutputs) << row->name;
    EXPECT_TRUE(row->lower || !row->argument.empty()) << row->name << " must say what is missing";
  }
}

TEST(GuidTable, EveryApiNodeIsThere) {
  auto rows = rowsByName();
  for (const GuidInfo& info : allGuids())
    if (info.kind == GuidClass::kApi) {
      EXPECT_TRUE(rows.count(info.name) && rows[info.name]->lower) << info.name;
    }
}

TEST(GuidTable, NamesAreReadInAnyCaseWithOptionalForwardAndSuffix) {
  for (std::string_view guid : {"gemm", "GEMM", "gemm_f32", "Moments", "moments_fwd", "frobenius_norm"})
    EXPECT_TRUE(findGuid(guid, Target::kGaudi2).ok()) << guid;
  StatusOr<GuidMatch> match = findGuid("slice_bf16", Target::kGaudi2);
  ASSERT_TRUE(match.ok());
  EXPECT_EQ(match->type, ElementType::kBF16);
  EXPECT_FALSE(findGuid("gemm_dedz", Target::kGaudi2).ok());
}

TEST(GuidTable, OperandListsAreParsed) {
  std::vector<OperandName> names = parseOperands("x, [mask], rest...");
  ASSERT_EQ(names.size(), 3u);
  EXPECT_TRUE(!names[0].optional && names[1].optional && names[2].repeated);
  EXPECT_EQ(names[1].name, "mask");
  EXPECT_EQ(names[2].name, "rest");
  EXPECT_TRUE(parseOperands("").empty());
}

constexpr char kHead[] = R"(<!-- Written by synapse_lowering_test with HPU_UPDATE=1; do not edit. -->

# SynapseAI node types

)";
constexpr char kRules[] = R"( node types compile.

- Operands are in order; `[..]` may be null or left out, `...` repeats. Parameters: `?` may be left out; a structure that grew
  is told apart by its size. Types: the GUID's suffix (`relu_fwd_f32`); "any" needs none.
- Everything wrong with a graph is one error of `synGraphCompile`, a line for each faulty node with its name and GUID; nodes
  that only lack a faulty node's result are not listed. A node type or an element type that is not there is such a line.
- A tensor without sizes or element type gets those that its node computes; declared ones must be the computed ones. Where
  sizes follow from nothing else (reshape, broadcast, dedx, split ...) they must be declared or come as a shape tensor.
- Products multiply floats and sum in f32. An f32 result of narrower operands is computed in f32 throughout, and so are operands
  of two different float types. Sizes of 1 at the end may be missing or too many; the third operand is added: a row's, or
  anything that broadcasts to the result.
- Convolutions' and poolings' parameters of a size that no structure has are read as what their structures have in common;
  2-D node types take the 3D structures of depth 1.
- `identity` into another type of the same width keeps the bits, `memcpy` into another type the numbers.
- Convolutions, norms and pooling take other layouts than {C, W, H, N} by the node's layout strings ("WHCN", "SRCK").
- Comparisons and logic give i8, 0 or 1; conditions are true where they are not zero.
- Nodes run in the order of data, then of control dependencies, then of creation. A tensor without a producer reads what its
  place in a section holds at that point: what an earlier node wrote there through another tensor, wholly or in part, else
  the value before the launch. So weights are updated in place by writing a second tensor at the first one's place.
- A persistent tensor may have a memory order of its own (`synTensorSetPermutation`, or strides, which may leave gaps).
- Free sizes: a launch's sizes of the inputs and shape tensors decide; the other tensors' follow, within their maxima.

| GUID | operands | results | parameters | types | there |
|---|---|---|---|---|---|
)";

/// docs/synapse-guids.md.
std::string document() {
  auto rows = rowsByName();
  std::string lines, missing;
  size_t there = 0, known = 0;
  auto code = [](std::string_view text) { return text.empty() ? std::string() : strCat("`", text, "`"); };
  for (const GuidInfo& info : allGuids()) {
    if (info.kind == GuidClass::kInternal) continue;
    ++known;
    auto found = rows.find(info.name);
    if (found == rows.end()) {
      missing += strCat(missing.empty() ? "" : ", ", code(info.name));
      continue;
    }
    const GuidRow& row = *found->second;
    there += row.lower != nullptr;
    lines +=
        strCat("| ", code(row.name), " | ", row.operands, " | ", row.results, " | ", row.params, " | ",
               row.types.empty() ? "any" : row.types, " | ", row.lower ? "yes" : strCat("no: ", row.argument), " |\n");
  }
  return strCat(kHead, there, " of ", known, kRules, lines,
                missing.empty() ? "" : strCat("\nNot there yet: ", missing, ".\n"));
}

TEST(GuidTable, DocumentIsUpToDate) {
  const char* source = std::getenv("HPU_SOURCE_DIR");
  ASSERT_TRUE(source) << "set HPU_SOURCE_DIR";
  std::string path = strCat(source, "/docs/synapse-guids.md");
  if (std::getenv("HPU_UPDATE")) std::ofstream(path) << document();
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), document()) << "run synapse_lowering_test with HPU_UPDATE=1";
}

}  // namespace
}  // namespace hpu::synapse
