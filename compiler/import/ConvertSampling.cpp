// SPDX-License-Identifier: Apache-2.0
// Samples of images at places that are data.
#include "compiler/import/Composed.h"
#include "compiler/import/OpTable.h"
#include "compose/GridSample.h"

namespace hpu::importer {
namespace {

using compose::GridSampling;

void convertGridSample(NodeContext& node) {
  GridSampling how;
  const std::string mode = node.text("mode", node.opset() >= 20 ? "linear" : "bilinear");
  if (mode == "nearest")
    how.mode = GridSampling::Mode::kNearest;
  else if (mode == "bicubic" || mode == "cubic")
    how.mode = GridSampling::Mode::kCubic;
  else if (mode != "bilinear" && mode != "linear")
    return node.invalid("unknown mode '" + mode + "'");
  const std::string padding = node.text("padding_mode", "zeros");
  if (padding == "border")
    how.padding = GridSampling::Padding::kBorder;
  else if (padding == "reflection")
    how.padding = GridSampling::Padding::kReflection;
  else if (padding != "zeros")
    return node.invalid("unknown padding_mode '" + padding + "'");
  how.alignsCorners = node.integer("align_corners", 0) != 0;
  Value image = node.input(0), grid = node.input(1);
  if (!image || !grid) return;
  const hpu::ElementType type = ir::elementType(node.elementOf(image));
  if (!node.isFloat(image)) return node.unsupported("images of integers");
  composed(node, {image, grid}, [&](compose::Emitter& e, const std::vector<hpu::Value>& in) {
    return std::vector<hpu::Value>{e.cast(compose::gridSample(e, e.toF32(in[0]), e.toF32(in[1]), how), type)};
  });
}

constexpr OpRow kRows[] = {
    {"GridSample", 16, kNewestOpset, convertGridSample, "", "floats; cubic samples of images only"},
};

}  // namespace

llvm::ArrayRef<OpRow> samplingRows() {
  return kRows;
}

}  // namespace hpu::importer
