// SPDX-License-Identifier: Apache-2.0
// Samples of images at places that are data.
#include "compiler/import/Composed.h"
#include "compiler/import/OpTable.h"
#include "compose/Columns.h"
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
  // A coordinate for each dimension of the image.
  if (const int64_t rank = node.rank(grid);
      rank == node.rank(image) && rank > 2 && !node.fixSize(grid, rank - 1, rank - 2))
    return;
  composed(node, {image, grid}, [&](compose::Emitter& e, const std::vector<hpu::Value>& in) {
    return std::vector<hpu::Value>{e.cast(compose::gridSample(e, e.toF32(in[0]), e.toF32(in[1]), how), type)};
  });
}

void convertAffineGrid(NodeContext& node) {
  Value matrices = node.input(0);
  const std::optional<Ints> sizes = node.constantInts(1);
  if (!matrices) return;
  if (!sizes) return node.unsupported("a size that is not known at import");
  if (sizes->size() != 4 && sizes->size() != 5) return node.invalid("its size is not [N, C, (D,) H, W]");
  const hpu::ElementType type = ir::elementType(node.elementOf(matrices));
  const bool alignsCorners = node.integer("align_corners", 0) != 0;
  composed(node, {matrices}, [&](compose::Emitter& e, const std::vector<hpu::Value>& in) {
    const Shape own(sizes->begin() + 2, sizes->end());
    return std::vector<hpu::Value>{e.cast(compose::affineGrid(e, e.toF32(in[0]), own, alignsCorners), type)};
  });
}

/// An attribute with one number a dimension, or `otherwise` for each.
std::optional<std::vector<int64_t>> perDim(NodeContext& node, llvm::StringRef name, size_t count, int64_t otherwise,
                                           int64_t least) {
  Ints list = node.integers(name);
  if (list.empty()) list.assign(count, otherwise);
  if (list.size() == count && llvm::all_of(list, [&](int64_t one) { return one >= least; }))
    return std::vector<int64_t>(list.begin(), list.end());
  node.invalid("'" + name.str() + "' must have " + std::to_string(count) + " numbers from " + std::to_string(least) +
               " on");
  return std::nullopt;
}

void convertCol2Im(NodeContext& node) {
  Value columns = node.input(0);
  const std::optional<Ints> image = node.constantInts(1), block = node.constantInts(2);
  if (!columns) return;
  if (!image || !block) return node.unsupported("sizes of the image or the block that are not known at import");
  const size_t dims = image->size();
  if (dims < 1 || block->size() != dims ||
      llvm::any_of(
          *image, [](int64_t size) { return size < 1; }) ||
      llvm::any_of(*block, [](int64_t size) { return size < 1; }))
    return node.invalid("image_shape and block_shape must have a positive size for each dimension");
  const auto strides = perDim(node, "strides", dims, 1, 1), dilations = perDim(node, "dilations", dims, 1, 1),
             pads = perDim(node, "pads", 2 * dims, 0, 0);
  if (!strides || !dilations || !pads) return;
  const compose::Blocks blocks{{image->begin(), image->end()},
                               {block->begin(), block->end()},
                               *strides,
                               *dilations,
                               {pads->begin(), pads->begin() + static_cast<std::ptrdiff_t>(dims)},
                               {pads->begin() + static_cast<std::ptrdiff_t>(dims), pads->end()}};
  composed(node, {columns}, [&](compose::Emitter& e, const std::vector<hpu::Value>& in) {
    return std::vector<hpu::Value>{compose::foldColumns(e, in[0], blocks)};
  });
}

void convertDeformConv(NodeContext& node) {
  const std::vector<Value> in = node.operands(5);
  if (node.failed()) return;
  if (!in[0] || !in[1] || !in[2]) return node.invalid("an operand is missing");
  if (!node.isFloat(in[0])) return node.unsupported("images of integers");
  if (NodeContext::rank(in[0]) != 4) return node.unsupported("other images than [N, C, H, W]");
  const auto strides = perDim(node, "strides", 2, 1, 1), dilations = perDim(node, "dilations", 2, 1, 1),
             pads = perDim(node, "pads", 4, 0, 0);
  if (!strides || !dilations || !pads) return;
  compose::DeformableWindow window;
  for (size_t d = 0; d < 2; ++d)
    window.strides[d] = (*strides)[d], window.dilations[d] = (*dilations)[d], window.padBegin[d] = (*pads)[d];
  window.groups = node.integer("group", 1);
  window.offsetGroups = node.integer("offset_group", 1);
  const hpu::ElementType type = ir::elementType(node.elementOf(in[0]));
  composed(node, in, [&](compose::Emitter& e, const std::vector<hpu::Value>& v) {
    auto f32 = [&](hpu::Value value) { return value.handle ? e.toF32(value) : value; };
    hpu::Value y = compose::deformableConvolution(e, f32(v[0]), f32(v[1]), f32(v[2]), f32(v[4]), window);
    if (v[3].handle && e.ok()) y = e.add(y, e.reshape(f32(v[3]), {1, e.dim(y, 1), 1, 1}));
    return std::vector<hpu::Value>{e.cast(y, type)};
  });
}

constexpr OpRow kRows[] = {
    {"AffineGrid", 20, kNewestOpset, convertAffineGrid, "", "a constant size"},
    {"Col2Im", 18, kNewestOpset, convertCol2Im, "", "constant sizes of the image and the block"},
    {"DeformConv", 19, kNewestOpset, convertDeformConv, "", "images [N, C, H, W] of floats"},
    {"GridSample", 16, kNewestOpset, convertGridSample, "", "floats; cubic samples of images only"},
};

}  // namespace

llvm::ArrayRef<OpRow> samplingRows() {
  return kRows;
}

}  // namespace hpu::importer
